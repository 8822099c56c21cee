"""Pages that show a stream: the report, and the page that follows a run."""
