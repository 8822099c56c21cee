"""Commands: what people ask of a stream, by a file beside its checkpoint or by a topic of its service."""

from .command import Action, Command, CommandReceipt, CommandResult
from .command_entry import CommandEntry
from .file_log import history

__all__ = ["Action", "Command", "CommandEntry", "CommandReceipt", "CommandResult", "history"]
