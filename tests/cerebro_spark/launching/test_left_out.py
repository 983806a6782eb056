"""Reasons for which rows are left out, in the words of the user's table."""

from __future__ import annotations

from cerebro_spark.launching._left_out import explain_reasons, reason_names


def test_a_file_that_cannot_be_read_is_no_null() -> None:
    names = reason_names(["photo"], ["photo"], ["photo", "kind"])
    error = "the DataFrame must have complete rows, got none (null in 'photo': 3 rows, null in 'kind': 1 row)."
    assert explain_reasons(error, names) == (
        "table must have rows to train on, got none (file that is missing or cannot be read in 'photo': 3 rows, "
        "null in 'kind': 1 row)."
    )
    # Encoded images, and columns that the source names.
    assert reason_names(["photo"], ["photo"], ["kind"]) == reason_names([], ["age"], ["kind"]) == {}


def test_columns_of_a_converted_table_are_those_of_the_user() -> None:
    names = reason_names(["review"], ["input_ids", "attention_mask"], ["review"])
    assert explain_reasons("null in 'input_ids'", names) == "null in 'review'"
    assert explain_reasons("null in 'label'", names) == "null in 'label'"
