project = "Documentation"
html_theme = "furo"
