"""What users' worlds are made of: entities, graphs, and procedures that worked."""

from typing import Annotated, Any

from typer import Argument, Option, Typer

from memoriale.adapters.command_line import options
from memoriale.adapters.command_line.groups import grouped
from memoriale.adapters.command_line.inputs import json_of
from memoriale.adapters.command_line.invocation import Invocation
from memoriale.adapters.command_line.options import Caller, Common, OnBranch
from memoriale.adapters.command_line.stores.showing import as_json, show_list, show_one
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

EntityId = Annotated[str, Argument(metavar="ENTITY", help="Id of an entity.")]
Node = Annotated[str, Argument(metavar="NODE", help="Id of a node.")]
Direction = Annotated[str, Option("--direction", metavar="out|in|both", help="Along edges.")]
EdgeTypes = Annotated[
    list[str] | None,
    Option("--type", metavar="NAME", help="Only edges of this type. May be repeated."),
]
_ENTITY = ["entity_id", "name", "entity_type", "description", "updated_at"]
_PROCEDURE = ["id", "trigger", "description", "success_count", "scope", "last_used"]


def register(app: Typer) -> None:
    """Adds the commands of this module."""
    groups: dict[str, tuple[str, dict[str, Any]]] = {
        "entity": (
            "Persons, firms and things that a user speaks of.",
            {
                "list": entity_list,
                "show": entity_show,
                "upsert": entity_upsert,
                "add-fact": entity_add_fact,
            },
        ),
        "graph": (
            "The knowledge graph of a user.",
            {
                "add": graph_add,
                "neighbours": graph_neighbours,
                "traverse": graph_traverse,
                "path": graph_path,
            },
        ),
        "procedure": (
            "Calls of tools that led to success.",
            {
                "save": procedure_save,
                "suggest": procedure_suggest,
                "list": procedure_list,
            },
        ),
    }
    for name, (told, commands) in groups.items():
        group = Typer(help=told, rich_markup_mode=None)
        for command, function in commands.items():
            group.command(command)(function)
        app.add_typer(group, name=name)


@grouped
def entity_list(
    caller: Caller,
    common: Common,
    place: OnBranch,
    as_of: options.AsOf = None,
    valid_at: options.ValidAt = None,
    every: Annotated[
        bool, Option("--all", help="With statements that ended or are not true.")
    ] = False,
) -> None:
    """
    List the entities of a user with what is known of them.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.entities.list_entities(include_ended=every, as_of=as_of, valid_at=valid_at)
    show_list(run, "entities", found, _ENTITY)


@grouped
def entity_show(
    entity_id: EntityId,
    caller: Caller,
    common: Common,
    place: OnBranch,
    as_of: options.AsOf = None,
    valid_at: options.ValidAt = None,
    every: Annotated[
        bool, Option("--all", help="With statements that ended or are not true.")
    ] = False,
) -> None:
    """
    Show an entity with its facts, events and relations.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.entities.get_entity(
            None, entity_id, include_ended=every, as_of=as_of, valid_at=valid_at
        )
    show_one(run, found, "there is no such entity")


@grouped
def entity_upsert(
    name: Annotated[str, Argument(metavar="NAME", help="What it is called.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    entity_type: Annotated[str, Option("--type", metavar="NAME", help="Of what type it is.")],
    entity_id: Annotated[
        str | None, Option("--id", metavar="ID", help="Its id. Default: made of the name.")
    ] = None,
    description: Annotated[str | None, Option(metavar="TEXT", help="In a sentence.")] = None,
    properties: Annotated[
        str | None,
        Option(metavar="JSON", help="A JSON object; null removes a property."),
    ] = None,
    fact: Annotated[
        list[str] | None, Option("--fact", metavar="TEXT", help="May be repeated.")
    ] = None,
) -> None:
    """
    Make an entity, or add to it.

    Right: use.
    """
    run = Invocation(common)
    given = {
        "name": name,
        "entity_type": entity_type,
        "entity_id": entity_id,
        "description": description,
        "properties": {} if properties is None else json_of("properties", properties),
        "facts": fact or [],
    }
    with run.memory(caller, place.branch) as memory:
        found = memory.entities.upsert_entity(None, given)
    show_one(run, found, "")


@grouped
def entity_add_fact(
    entity_id: EntityId,
    fact: Annotated[str, Argument(metavar="TEXT", help="What is true of it.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    importance: options.Importance = None,
    valid_from: Annotated[
        str | None, Option(metavar="TIME", help="Since when it is true in the world.")
    ] = None,
    valid_until: Annotated[
        str | None, Option(metavar="TIME", help="When it stops being true.")
    ] = None,
) -> None:
    """
    Add a fact to an entity; one that is known already changes nothing.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        made = memory.entities.add_fact(
            None,
            entity_id,
            fact,
            importance=importance,
            valid_from=valid_from,
            valid_until=valid_until,
        )
    run.output.result({"id": str(made)}, lambda page: page.line(f"the fact is {made}"))


@grouped
def graph_add(
    given: Annotated[
        str,
        Argument(metavar="JSON", help='A JSON object with lists "nodes" and "edges".'),
    ],
    caller: Caller,
    common: Common,
    place: OnBranch,
) -> None:
    """
    Add nodes and edges to the graph, all of them or none.

    A node has "id" and "type", an edge "source_id", "target_id" and "type".

    Right: use.
    """
    run = Invocation(common)
    nodes, edges = _lists(json_of("given", given))
    with run.memory(caller, place.branch) as memory:
        added = memory.graph.add(nodes, edges)
    told = f"added {len(added.nodes)} nodes and {len(added.edges)} edges"
    run.output.result(as_json(added), lambda page: page.line(told))


@grouped
def graph_neighbours(
    node: Node,
    caller: Caller,
    common: Common,
    place: OnBranch,
    direction: Direction = "both",
    edge_type: EdgeTypes = None,
    limit: Annotated[int, Option(help="How many at most.")] = 100,
    as_of: options.AsOf = None,
    valid_at: options.ValidAt = None,
) -> None:
    """
    List what is at the other ends of a node's edges.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.graph.neighbours(
            node,
            direction=direction,
            types=edge_type or (),
            limit=limit,
            as_of=as_of,
            valid_at=valid_at,
        )
    rows = [[one.edge.source_id, one.edge.type, one.edge.target_id] for one in found]
    run.output.result(
        {"neighbours": [as_json(one) for one in found]},
        lambda page: page.table(["from", "type", "to"], rows),
    )


@grouped
def graph_traverse(
    node: Annotated[list[str], Argument(metavar="NODE...", help="Ids of nodes.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    depth: Annotated[int, Option(help="Steps at most.")] = 2,
    direction: Direction = "both",
    edge_type: EdgeTypes = None,
    max_nodes: Annotated[int, Option(help="Nodes at most.")] = 100,
    as_of: options.AsOf = None,
    valid_at: options.ValidAt = None,
) -> None:
    """
    Show what can be reached from some nodes, the nearest first.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.graph.traverse(
            node,
            depth,
            direction=direction,
            types=edge_type or (),
            max_nodes=max_nodes,
            as_of=as_of,
            valid_at=valid_at,
        )
    rows = [[one.id, one.type, one.name] for one in found.nodes]
    run.output.result(as_json(found), lambda page: page.table(["id", "type", "name"], rows))


@grouped
def graph_path(
    source: Annotated[str, Argument(metavar="FROM", help="Id of a node.")],
    target: Annotated[str, Argument(metavar="TO", help="Id of another one.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    direction: Direction = "both",
    edge_type: EdgeTypes = None,
    as_of: options.AsOf = None,
    valid_at: options.ValidAt = None,
) -> None:
    """
    Show a path of the fewest edges between two nodes.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.graph.shortest_path(
            source,
            target,
            direction=direction,
            types=edge_type or (),
            as_of=as_of,
            valid_at=valid_at,
        )
    value = {"nodes": [], "edges": []} if found is None else as_json(found)
    told = "there is no path" if found is None else " - ".join(n.id for n in found.nodes)
    run.output.result(value, lambda page: page.line(told))


@grouped
def procedure_save(
    trigger: Annotated[str, Argument(metavar="TRIGGER", help="When to repeat it.")],
    description: Annotated[str, Argument(metavar="TEXT", help="What it does.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    steps: Annotated[
        str | None,
        Option(
            metavar="JSON",
            help='A list of steps: "tool_name", and "args_snapshot" and "result_summary" if any.',
        ),
    ] = None,
    scope: Annotated[
        str, Option("--scope", metavar="user|agent|tenant", help="Who may see it.")
    ] = "user",
) -> None:
    """
    Save a procedure that worked; one of the same trigger counts one more success.

    Right: use.
    """
    run = Invocation(common)
    given = {
        "trigger": trigger,
        "description": description,
        "steps": [] if steps is None else json_of("steps", steps),
        "scope": scope,
    }
    with run.memory(caller, place.branch) as memory:
        made = memory.procedures.save_procedure(given)
    show_one(run, made, "")


@grouped
def procedure_suggest(
    task: Annotated[str, Argument(metavar="TEXT", help="What is to be done.")],
    caller: Caller,
    common: Common,
    place: OnBranch,
    as_of: options.AsOf = None,
) -> None:
    """
    Show the procedure that fits a task best.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.procedures.suggest_procedure(task, as_of=as_of)
    show_one(run, found, "no procedure is about this")


@grouped
def procedure_list(
    caller: Caller, common: Common, place: OnBranch, as_of: options.AsOf = None
) -> None:
    """
    List procedures, those that were successful most often first.

    Right: use.
    """
    run = Invocation(common)
    with run.memory(caller, place.branch) as memory:
        found = memory.procedures.get_procedures(as_of=as_of)
    show_list(run, "procedures", found, _PROCEDURE)


def _lists(given: Any) -> tuple[list[Any], list[Any]]:
    """The nodes and the edges of an argument."""
    found: dict[str, Any] = given if isinstance(given, dict) else {"": None}
    nodes, edges = found.get("nodes", []), found.get("edges", [])
    if set(found) - {"nodes", "edges"} or not all(isinstance(n, list) for n in (nodes, edges)):
        raise InputError(
            f'given is {shown(given)}; give a JSON object with lists "nodes" and "edges".',
            code="bad_value",
            field="given",
            value=shown(given),
            allowed='{"nodes": [...], "edges": [...]}',
        )
    return nodes, edges
