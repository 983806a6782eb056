"""Explanation page of the web application, and the request handlers behind it, which run in a pool."""
