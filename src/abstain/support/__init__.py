"""What every stage needs and none owns: words for people, optional packages, whole files."""
