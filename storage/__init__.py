"""What ATK keeps, and how nothing of it is lost."""
