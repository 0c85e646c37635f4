"""The published trials, and what tests of pages ask of them."""

from pathlib import Path

from autodist.search import compare

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TRIALS = ROOT / "benchmarks" / "trials"
MODELS = {
    "VGG": "vgg",
    "NCF, sparse, 2,048 examples": "ncf_sparse",
    "LSTM with sampled softmax": "lstm",
    "BERT of 3 layers, 6 examples": "bert_3",
    "ResNet, 6 examples": "resnet",
    "NCF, dense": "ncf_dense",
}
ROUNDED = 0.0021
"""Pages have three digits; which of two nearly equal strategies is ahead may differ by the processor."""


def of_model(sets, model):
    [found] = [data for data in sets if f" {model} " in f"{data.label} "]
    return found


def judged(data, names, **options):
    found = compare([data], names, ["trials"], **options)
    return {one.simulator: one.accuracy for one in found}


def lines_of_page(page, least):
    """The lines of a page's tables that begin with a model and have at least so many cells."""
    lines = (DOCS / page).read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in rows if row[0] in MODELS and len(row) >= least]
