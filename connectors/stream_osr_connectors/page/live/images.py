"""Pictures of instances: an address for each key, where the operator has a template of them."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from stream_osr.errors import InvalidParameter
from stream_osr.showing import shown

HERE = "{key}"


class Images:
    """Addresses of pictures.

    Parameters
    ----------
    template
        An address with ``{key}`` in its path or query.

    Raises
    ------
    InvalidParameter
        If it is none.

    Examples
    --------
    >>> images = Images("https://pictures.example/of/{key}.png")
    >>> images.of("a/7"), images.origin
    ('https://pictures.example/of/a%2F7.png', 'https://pictures.example')
    """

    def __init__(self, template: str) -> None:
        try:
            parts = urlsplit(template)
            safe = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.netloc.isascii()
        except ValueError:
            safe = False
        odd = safe and any(c in parts.netloc for c in "{}; ,'\"@")
        if not safe or odd or HERE not in parts.path + parts.query:
            raise InvalidParameter(
                f"--image is {shown(template)}; give an address like https://pictures.example/{HERE}.png"
            )
        self._template = template
        self.origin = f"{parts.scheme}://{parts.netloc}"

    def of(self, key: object) -> str:
        """Address of the picture of an instance."""
        return self._template.replace(HERE, quote(str(key), safe=""))
