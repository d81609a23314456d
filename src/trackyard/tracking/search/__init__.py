"""The search language: filters, orders and pages of runs and experiments, with reusable pieces.

Owns the grammar and its SQL on both databases; knows no HTTP. Whatever has a list to search
(registered models, model versions, logged models) needs three steps:

1. Parse, with one of the languages of `language.py`::

       tree = parse_filter(text, REGISTERED_MODELS)
       orders = parse_order(order_by, REGISTERED_MODELS)   # -> Order(key, ascending), ...

2. Say where the keys lie, and compile. `Column` is a column of the row itself, `Rows` a table of
   keys and values; tags that count as set where they are absent go in `absent`; `also` narrows the
   rows (a logged model's metrics on one dataset). Attribute names are the canonical ones of the
   language, aliases are gone after parsing::

       columns = Columns(
           attributes={"name": Column("m.name")},
           rows={"tag": Rows(table="model_tags", owner="model_id", parent="m.id",
                             absent={"mlflow.prompt.is_prompt": "false"})},
       )
       where = compile_where(reader.dialect, tree, columns)

3. Sort and page. Terms are never NULL (`nulls_last` makes two terms of a nullable expression) and
   the last one must be unique; `binding` ties page tokens to the team and the query::

       terms = [Term("m.updated_ms", ascending=False, kind="whole"),
                Term("m.name", ascending=True, kind="text")]
       ids, token = find_page(
           reader, key="m.id", source=Fragment("models m"),
           where=join("AND", [Fragment("m.team_id = ?", (team_id,)), where]),
           terms=terms, query=binding("models", team_id, text, order_by),
           max_results=max_results, page_token=page_token)

A fragment's SQL is fixed text of ours with `?` marks; whatever a user wrote is in its `params`.
"""
