"""The pages of docs/reference, one file each; `render()` returns a page as Markdown."""
