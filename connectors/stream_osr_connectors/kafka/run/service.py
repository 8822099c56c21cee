"""Put together of their parts: one worker of the service, and what joins the subclasses of all partitions."""

from __future__ import annotations

from collections.abc import Callable

from stream_osr.errors import ConnectorError

from ..client import TransactionalProducer
from ..figures import Figures
from ..settings import ServiceSettings
from .current_model import CurrentModel
from .joining import MOST_RECORDS, Joining
from .loop import Loop
from .models import ModelFile
from .reading import Reader
from .snapshots import open_folder
from .streams import Streams
from .topics import topics_of
from .transactions import Transactions
from .watching import Watch


class Service(Loop):
    """One worker of the service.

    Parameters
    ----------
    settings
        What the operator has set.
    model
        The trained model; that of the settings if not given.
    make_producer
        Maker of that client.
    figures
        Where it tells how it goes; its own if not given.

    Raises
    ------
    PersistenceError
        If the model or the folder of the snapshots cannot be used.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        model: ModelFile | None = None,
        make_producer: Callable[[ServiceSettings], TransactionalProducer] = TransactionalProducer,
        figures: Figures | None = None,
    ) -> None:
        figures = Figures() if figures is None else figures
        folder = open_folder(settings)
        model = CurrentModel(settings, folder).model if model is None else model
        streams = Streams(settings, model, folder, figures)
        reader = Reader(settings, settings.inputs, streams.most_read, figures)
        transactions = Transactions(make_producer, settings, figures)
        watch = Watch(settings, topics_of(settings), figures)
        super().__init__(settings, streams, reader, transactions, watch, figures)


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
        roles = {topic: "subclasses", settings.links: "links", settings.global_events: "global_events"}
        super().__init__(
            own,
            Joining(own, topic, ModelFile.load(settings) if model is None else model, figures),
            Reader(own, [topic], MOST_RECORDS, figures),
            Transactions(TransactionalProducer, own, figures),
            Watch(own, roles, figures, {"subclasses": ("READ",), "links": ("READ", "WRITE")}),
            figures,
        )
