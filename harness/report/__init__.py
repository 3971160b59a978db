"""Reports: tables, figures and one self-contained page, built from the records of finished or unfinished runs."""
