"""Table 8.4: how well a network that has learned in one domain ranks in another one."""

from __future__ import annotations

from autodist.simulator import LEARNED, EventSimulator, transferred

from ._base import Findings, Study
from ._trials import CLUSTERS, MODELS, measured

__all__ = ["STUDIES"]

_PAIRS = (
    (("bert_3", "slow"), ("bert_3", "few"), "(BERT-3L, A) → (BERT-3L, B)", "0.867"),
    (("vgg", "slow"), ("vgg", "few"), "(VGG16, A) → (VGG16, B)", "0.797"),
    (("ncf_sparse", "slow"), ("ncf_sparse", "few"), "(NCF-dense, A) → (NCF-dense, B)", "0.769"),
    (("bert_3", "slow"), ("vgg", "few"), "(BERT-3L, A) → (VGG16, B)", "0.558"),
    (("vgg", "slow"), ("bert_3", "few"), "(VGG16, A) → (BERT-base, B)", "0.730"),
    (("vgg", "slow"), ("resnet", "slow"), "(VGG16, A) → (ResNet50, A)", "0.716"),
    (("resnet", "slow"), ("resnet", "few"), "(ResNet101, A) → (ResNet101, B)", "0.719"),
)


class Transferred(Study):
    """Ranking accuracy from one domain to another."""

    name = "table-8.4"
    title = "Pairs in the right order after learning from another domain's trials"
    needs = "ten minutes"

    def run(self) -> Findings:
        """Learn and rank."""
        rows = []
        for source, target, thesis, accuracy in _PAIRS:
            seen, ranked = (measured(f"trials/{cluster}.zip")[model] for model, cluster in (source, target))
            found = [transferred(make, [seen], ranked).pairwise for make in (LEARNED["rnn"], EventSimulator)]
            rows.append((_words(*source), _words(*target), *(f"{one:.3f}" for one in found), thesis, accuracy))
        return Findings(("Learned from", "Ranked", "rnn", "events", "thesis: domains", "thesis: rnn"), tuple(rows))


STUDIES: tuple[type[Study], ...] = (Transferred,)


def _words(model: str, cluster: str) -> str:
    return f"{MODELS[model]}, {CLUSTERS[cluster]}"
