"""The service's log; what its lines look like is for `ops.logs` to say."""

from __future__ import annotations

import logging

logger = logging.getLogger("stream_osr.kafka")
