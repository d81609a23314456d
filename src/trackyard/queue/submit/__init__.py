"""From a submission to rows: checks, arrays, packages, variables, data sets, shapes of gangs."""
