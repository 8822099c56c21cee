"""Names inside `stream_osr_connectors.page` that tests reach for: they import them from here, and nowhere else."""

from stream_osr_connectors.page.glossary import TERMS, WORDS
from stream_osr_connectors.page.input_records import read_records
from stream_osr_connectors.page.live import page_host
from stream_osr_connectors.page.live.access import KnownHosts, Tokens
from stream_osr_connectors.page.live.checkpoint_view import CheckpointView
from stream_osr_connectors.page.live.class_summary import KEPT, MOST_BINS
from stream_osr_connectors.page.live.examples import ExampleChooser, Images
from stream_osr_connectors.page.live.feeds import FileFeed
from stream_osr_connectors.page.live.file_commands import FileActs
from stream_osr_connectors.page.live.file_tail import FeedTruncated, Tail, is_written
from stream_osr_connectors.page.live.followers import MOST_FOLLOWERS
from stream_osr_connectors.page.live.input_rows import InputRows
from stream_osr_connectors.page.live.page_host import configure, listen, run_server
from stream_osr_connectors.page.live.server import MOST_BODY, make_app
from stream_osr_connectors.page.live.service_feed import ServiceFeed
from stream_osr_connectors.page.live.state import MOST_NAMELESS, MOST_SUBCLASSES, RECENT, State
from stream_osr_connectors.page.live.view_model import MOST_CARDS, MOST_KNOWN, MOST_ROWS, view_model
from stream_osr_connectors.page.live.watcher import Watcher
from stream_osr_connectors.page.plot import Figures
from stream_osr_connectors.page.report import class_summary
from stream_osr_connectors.page.report import page as page_writer
from stream_osr_connectors.page.report.axes import INSIDE, discriminants, planes
from stream_osr_connectors.page.report.candidates import LISTED, choose_highlights
from stream_osr_connectors.page.report.charts import LIGHT, signs
from stream_osr_connectors.page.report.content import Content, collect
from stream_osr_connectors.page.report.decisions_table import MOST_LABELS, read_decisions
from stream_osr_connectors.page.report.events_section import MOST_OTHERS, RecallDrop, RefutedSubclass, recall_section
from stream_osr_connectors.page.report.files import naming, read_files, read_instances, read_truth
from stream_osr_connectors.page.report.page import IN_WORDS
from stream_osr_connectors.page.report.timeline import BINS, ROWS, lay_out
