"""Python client of tensord: `Client`, `AsyncClient`, `serve`, and an exception class for each error code."""
from .arrays import Keys, Ref
from .async_client import AsyncClient, AsyncPrograms, AsyncStore, AsyncTable, AsyncTables
from .calls import Found, Matches, Selected
from .client import Client, Programs, Store, Table, Tables
from .errors import (ClientLimit, Conflict, ConnectionLimit, ConnectionLost, DataDirLocked, DeadlineExceeded,
                     DeviceUnavailable, DivisionByZero, Draining, Forbidden, IndexOutOfBounds, Internal,
                     InvalidArgument, InvalidAxis, InvalidBatchDims, InvalidEquation, KeyNotFound,
                     MalformedRequest, MemoryExhausted, MethodNotAllowed, NotAcceptable, NotFound,
                     NotSupported, PayloadTooLarge, PreconditionFailed, ProblemError, ProtocolError,
                     QueueFull, RangeNotSatisfiable, ReplyTooLarge, RequestTimeout, ResourceLimit,
                     ShapeMismatch, TensorNotFound, TensordError, Timeout, Unauthenticated,
                     UnknownOp, UnsupportedDtype, UnsupportedMediaType)
from .inputs import bfloat16
from .programs import Program, program
from .serving import Server, serve
from .specs import Spec, spec
from .tracing import Traced, steps

__version__ = "0.3.0"
__all__ = ["AsyncClient", "AsyncPrograms", "AsyncStore", "AsyncTable", "AsyncTables", "Client", "ClientLimit", "Conflict", "ConnectionLimit",
           "ConnectionLost", "DataDirLocked", "DeadlineExceeded", "DeviceUnavailable", "DivisionByZero", "Draining", "Forbidden",
           "Found", "IndexOutOfBounds", "Internal", "InvalidArgument", "InvalidAxis",
           "InvalidBatchDims", "InvalidEquation", "KeyNotFound", "Keys", "MalformedRequest",
           "Matches", "MemoryExhausted", "MethodNotAllowed", "NotAcceptable", "NotFound", "NotSupported",
           "PayloadTooLarge", "PreconditionFailed", "ProblemError", "Program", "Programs", "ProtocolError", "QueueFull",
           "RangeNotSatisfiable", "Ref", "ReplyTooLarge", "RequestTimeout", "ResourceLimit", "Selected", "Server",
           "ShapeMismatch", "Spec", "Store", "Table", "Tables", "TensorNotFound", "TensordError", "Timeout", "Traced", "Unauthenticated",
           "UnknownOp", "UnsupportedDtype", "UnsupportedMediaType", "bfloat16", "program", "serve", "spec", "steps"]
