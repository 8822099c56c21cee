"""What joins the subclasses of all partitions: its parts, put together."""

from __future__ import annotations

from stream_osr.errors import ConnectorError

from ..client import TransactionalProducer
from ..figures import Figures
from ..settings import ServiceSettings
from .joining import MOST_RECORDS, Joining
from .loop import Loop
from .models import ModelFile
from .reading import Reader
from .transactions import Transactions
from .watching import Watch


class Reconciler(Loop):
    """One consumer of the summaries.

    Parameters
    ----------
    settings
        Those of the service; its group is followed by ``-reconcile``.
    model
        The trained model; that of the settings if not given.
    figures
        Where it tells how it goes; its own if not given. Its records are summaries, its events global ones.

    Raises
    ------
    ConnectorError
        If no topic of summaries is named.
    PersistenceError
        If the model cannot be used.
    """

    def __init__(
        self, settings: ServiceSettings, *, model: ModelFile | None = None, figures: Figures | None = None
    ) -> None:
        topic = settings.subclasses
        if topic is None:
            raise ConnectorError(
                "no topic of summaries is named: set subclasses (for the workers, too), INPUT.subclasses, say"
            )
        own = settings.model_copy(update={"group": f"{settings.group}-reconcile"})
        figures = Figures() if figures is None else figures
        names = {"subclasses": topic, "links": settings.links, "global_events": settings.global_events}
        super().__init__(
            own,
            Joining(own, topic, ModelFile.load(settings) if model is None else model, figures),
            Reader(own, topic, MOST_RECORDS, figures),
            Transactions(TransactionalProducer, own, figures),
            Watch(own, names, figures, {"subclasses": ("READ",), "links": ("READ", "WRITE")}),
            figures,
        )
