"""The site: what MkDocs does not know of this repository by itself."""
