"""The sorts of operators: enumerations for descriptions and for those that ask them."""

import enum


class Kind(enum.Enum):
    """The sort of work that an operator does."""

    ELEMENTWISE = "elementwise"
    """Each element of the result is computed from one element of each input."""
    REDUCTION = "reduction"
    PRODUCT = "product"
    CONVOLUTION = "convolution"
    """Convolutions, pooling, and their gradients."""
    MOVING = "moving"
    """Elements are moved, repeated or left out, and stay as they are."""
    LOOKUP = "lookup"
    SCATTER = "scatter"
    """Rows are added to, or written to, the places that numbers name."""
    BY_ROW = "by row"
    """A function of all elements along some dims, the same for each place along the others: softmax, sort, inverse."""
    RANDOM = "random"
    VARIABLE = "variable"
    """Reads or writes a variable."""
    SOURCE = "source"
    """Has no inputs, or none that matter: constants, arguments, handles."""
    SHAPE = "shape"
    """Asks for sizes, whatever the values are."""
    FLOW = "flow"
    """Calls, branches and loops."""
    LIST = "list"
    OTHER = "other"
    """Work that indices don't say: results whose sizes depend on the data, files, texts."""


class Passes(enum.Enum):
    """How the result of an operator is still its first input."""

    SAME = "same"
    """The same tensor."""
    FORM = "form"
    """The same elements in the same order, with another shape."""
    TYPE = "type"
    """The same elements with another element type."""
    ORDER = "order"
    """The same elements in another order."""


class Linearity(enum.Enum):
    """In which inputs an operator is linear."""

    FIRST = "first"
    """In the first one, whatever the others are."""
    JOINT = "joint"
    """In all inputs jointly: its result for sums of inputs is the sum of its results."""
    EACH = "each"
    """In each, while the others are constant."""
    NUMERATOR = "numerator"
    """In the first one, as a quotient is."""


class Reducer(enum.Enum):
    """How the results of tiles along an index that the result does not have make the whole result."""

    SUM = "sum"
    MEAN = "mean"
    """Weighted by the tiles' lengths."""
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    ALL = "all"
    ANY = "any"
    NORM = "norm"
    """The root of the sum of squares."""


class Asks(enum.Enum):
    """An operator's answer about the form of a value, whatever the elements are."""

    LENGTHS = "lengths"
    """The length of each dim."""
    EACH = "lengths of each"
    """The length of each dim of each of its inputs."""
    COUNT = "count"
    """The number of elements."""
    RANK = "rank"
    """The number of dims."""


class Flow(enum.Enum):
    """How an operator calls functions."""

    BRANCH = "branch"
    """Calls one of several functions, which its first input selects, with all other inputs."""
    LOOP = "loop"
    """Calls a function repeatedly on its own results, so the results have the types of the inputs."""
    CALL = "call"
    """Calls one function with all inputs."""


class ListUse(enum.Enum):
    """An operator's use of a list of tensors."""

    MAKES = "makes"
    """Gives one that has no tensors yet."""
    UNSTACKS = "unstacks"
    """Gives the parts of a tensor along dim 0."""
    STACKS = "stacks"
    """Gives the tensors side by side, along a new dim 0."""
    CONCATENATES = "concatenates"
    """Gives the tensors one after the other along dim 0."""
    GETS = "gets"
    """Gives the tensor at a place."""
    SETS = "sets"
    """Puts a tensor, its third input, in its place."""
    APPENDS = "appends"
    """Puts a tensor, its second input, after the others."""
    POPS = "pops"
    """Gives the list without its last tensor, and that tensor."""
    PICKS = "picks"
    """Gives the tensors at some places side by side."""


class RangeUse(enum.Enum):
    """How an operator takes ranges along a dim, or puts them one after the other."""

    JOINS = "joins"
    """Its inputs one after the other along the dim that the last one names."""
    SPLITS = "splits"
    """Equal parts along the dim that its first input names."""
    SLICES = "slices"
    """From a place, this many elements."""
    STRIDES = "strides"
    """From a place up to another one, perhaps every other one."""


class Handle(enum.Enum):
    """An operator's use of the variable, or the table, whose handle it takes."""

    MAKES = "makes"
    """Gives the handle."""
    READS = "reads"
    ASSIGNS = "assigns"
    """Changes all of it, each element by the element of its other inputs at that place."""
    SCATTERS = "scatters"
    """Changes the rows that an input names."""
    WRITES = "writes"
    """Changes it in another way."""


class Unchanged(enum.Enum):
    """The last input with which an operator that changes variables changes nothing."""

    OLD = "old"
    """The value that the variable has."""
    ZEROS = "zeros"
