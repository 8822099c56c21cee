"""Names inside ``stream_osr_connectors.http_service`` that tests use."""

from stream_osr_connectors.http_service.acceptor import Acceptor
from stream_osr_connectors.http_service.folder_run import FolderRun
from stream_osr_connectors.http_service.instances import MOST_BODY
from stream_osr_connectors.http_service.journal import InstanceJournal, JournalLine, JournalSource
from stream_osr_connectors.http_service.openapi import OPERATIONS
from stream_osr_connectors.http_service.outputs import Outputs
from stream_osr_connectors.http_service.routes import make_app
