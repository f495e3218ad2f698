"""English: tags, stems, verb forms, articles, tokens."""
