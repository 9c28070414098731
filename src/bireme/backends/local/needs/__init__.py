"""What a program needs of its interpreter: the packages that its source imports, and what those weigh."""
