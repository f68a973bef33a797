"""Which kernels make the mistakes that learners of one exercise make?  One file a notebook."""
