"""The rules of a resource's memory: key-value working memory and semantic facts."""
