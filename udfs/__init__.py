"""EXECUTE: what runs inside a Spark executor (Arrow iterator functions, framework handlers)."""
