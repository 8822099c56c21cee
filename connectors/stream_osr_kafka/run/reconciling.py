"""What joins the subclasses of all partitions: its parts, put together."""

from __future__ import annotations

from collections.abc import Callable

from stream_osr.errors import ConnectorError

from ..client import TransactionalProducer
from ..figures import Figures
from ..patience import Strikes
from ..settings import ServiceSettings
from .joining import MOST_RECORDS, Joining
from .loop import Loop
from .models import ModelFile
from .reading import Reader
from .transactions import Transactions
from .watching import Watch


class Reconciler:
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
        self.figures = Figures() if figures is None else figures
        names = {"subclasses": topic, "links": settings.links, "global_events": settings.global_events}
        strikes = Strikes(own, self.figures)
        self._loop = Loop(
            own,
            Joining(own, topic, ModelFile.load(settings) if model is None else model, self.figures),
            Reader(own, topic, MOST_RECORDS, self.figures),
            Transactions(
                lambda: TransactionalProducer(own), own.transaction_deadline, own.transaction_timeout, strikes
            ),
            Watch(own, names, self.figures, {"subclasses": ("READ",), "links": ("READ", "WRITE")}),
            self.figures,
        )

    def run(self, stop: Callable[[], bool]) -> None:
        """Work until told to stop.

        Raises
        ------
        ConnectorError
            If it cannot go on without a person, or should be started again.
        """
        self._loop.run(stop)
