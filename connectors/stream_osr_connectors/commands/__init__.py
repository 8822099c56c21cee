"""Commands: what people ask of a stream, by a file beside its checkpoint or by a topic of its service."""

from .command import Action, Command, CommandReceipt, CommandResult
from .file_log import history
from .history import CommandEntry

__all__ = ["Action", "Command", "CommandEntry", "CommandReceipt", "CommandResult", "history"]
