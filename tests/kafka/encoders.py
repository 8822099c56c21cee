"""Encoders as users may bring them; some fail."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.wire.messages import Encoded, EncodedKind, Encoder

BROKEN = "ENCODER_IS_BROKEN"
"""Variable with the path of a file: while it is there, the encoder fails for everything."""

SECRET = "only in the text of the error"


def failing(settings: ServiceSettings) -> Encoder:
    """Encode as JSON with spaces; fail for keys that end with 7, and for everything while the file is there."""
    broken = Path(os.environ[BROKEN])

    def encode(kind: EncodedKind, content: Mapping[str, Any]) -> Encoded:
        if broken.exists() or (kind == "decision" and str(content["key"]).endswith("7")):
            raise ValueError(SECRET)
        return Encoded(json.dumps(content, indent=1).encode(), "application/json; indented")

    return encode
