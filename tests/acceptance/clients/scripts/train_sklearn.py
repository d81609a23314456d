"""scikit-learn with autolog: a fit, a grid search with child runs, nothing logged by hand."""

import sys

import mlflow
import numpy
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

mlflow.set_experiment(sys.argv[1])
mlflow.sklearn.autolog()
draw = numpy.random.default_rng(3)
x = draw.normal(size=(60, 4))
y = (x[:, 0] > 0).astype(int)
with mlflow.start_run(run_name="fit"):
    model = LogisticRegression(C=0.5).fit(x, y)
    model.score(x, y)
with mlflow.start_run(run_name="grid"):
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2).fit(x, y)
