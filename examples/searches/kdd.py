"""Numbers, and categories with an embedding each: the KDD census, which is similar to Criteo's advertisements.

``python examples/search_data.py kdd --out kdd.parquet``
``cerebro tune examples/searches/kdd.py --table kdd.parquet --out artifacts/kdd``

Few people earn much (6 %), so the area under the ROC curve decides.
"""

from __future__ import annotations

from typing import Any

import torch

from cerebro_spark import ModelTrainer

# Number of categories by column, as examples/search_data.py counts them in all rows.
CATEGORIES = {
    "class_of_worker": 9,
    "industry_code": 52,
    "occupation_code": 47,
    "education": 17,
    "enrolled": 3,
    "marital_status": 7,
    "major_industry": 24,
    "major_occupation": 15,
    "race": 5,
    "hispanic_origin": 10,
    "sex": 2,
    "union_member": 3,
    "reason_for_unemployment": 6,
    "employment": 8,
    "tax_filer": 6,
    "region_of_previous_residence": 6,
    "state_of_previous_residence": 51,
    "household": 38,
    "household_summary": 8,
    "migration_msa": 10,
    "migration_region": 9,
    "migration_within_region": 10,
    "same_house": 3,
    "migration_sunbelt": 4,
    "parents_present": 5,
    "birth_country_of_father": 43,
    "birth_country_of_mother": 43,
    "birth_country": 43,
    "citizenship": 5,
    "own_business": 3,
    "veterans_questionnaire": 3,
    "veterans_benefits": 3,
    "year": 2,
}

NUMBERS = [
    "age",
    "wage_per_hour",
    "capital_gains",
    "capital_losses",
    "dividends",
    "persons_worked_for",
    "weeks_worked",
]

feature_columns = {"numbers": NUMBERS, "categories": list(CATEGORIES)}
label_columns = ["label"]
metric = "auc"
num_epochs = 2
search_space = {"lr": [1e-2, 1e-3], "embedding": [4, 8], "hidden": [64]}


class Census(torch.nn.Module):
    """A network of two inputs."""

    def __init__(self, embedding: int, hidden: int) -> None:
        super().__init__()
        # One table for all columns: each has its own range of rows.
        counts = torch.tensor([0, *CATEGORIES.values()])
        self.register_buffer("first", counts.cumsum(0)[:-1])
        self.embedding = torch.nn.Embedding(int(counts.sum()), embedding)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(len(NUMBERS) + len(CATEGORIES) * embedding, hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(hidden, 2),
        )

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        """Compute scores of the two classes, from categories as int64 and numbers as float32."""
        found = self.embedding(categories + self.first).flatten(1)
        return self.layers(torch.cat([numbers, found], dim=1))


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Build the network, and Adam for all of it."""
    net = Census(params["embedding"], params["hidden"])
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy", "auc"], batch_size=256
    )
