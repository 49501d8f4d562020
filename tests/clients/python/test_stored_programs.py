"""Programs that are stored in the daemon, from functions and from their JSON."""
import numpy as np
import pytest
import tensord
from tensord import spec, steps

ITEMS = np.array([[1, 0], [0, 2], [3, 3], [2, 1]], "f4")


@tensord.program(query=spec("float32", 2), ids=spec("int64", "n"))
def best(query, ids, k=3, largest=True, table="items", power=1, note=None):
    rows = steps.gather(table, ids)
    scores = steps.einsum("nd,d->n", rows, query)
    for _ in range(power):
        scores = scores * 1
    values, place = steps.top_k(scores, k, largest=largest)
    return {"who": ids[place], "best": values}


@pytest.fixture
def programs(client):
    client.tables["items"].put(ITEMS)
    yield client.programs
    for name in [*client.programs]:
        client.programs.delete(name)
    client.tables["items"].delete()


def test_a_stored_function_runs_by_name_with_arguments(using, daemon, programs):
    using(daemon.url, lambda client: client.programs.put("best", best))
    for ids in (range(4), np.arange(4)):  # JSON and binary
        found = using(daemon.url, lambda client: client.run("best", query=np.array([1, 1], "f4"), ids=ids, k=2))
        assert found["who"].tolist() == [2, 3] and found["best"].tolist() == [6, 3]
    found = using(daemon.url, lambda client: client.run("best", query=[1.0, 1.0], ids=[3, 0, 1], largest=False, output_dtype="float16"))
    assert found["who"].tolist() == [0, 1, 3] and found["best"].dtype == np.float16


def test_parameters_become_arguments_unless_the_function_computes_with_them(programs):
    made = best.stored()
    assert made["steps"][3] == {"op": "top_k", "x": "$scores_2", "k": {"attr": "k", "default": 3}, "largest": {"attr": "largest", "default": True},
                                "as": {"values": "best", "indices": "place"}}
    assert [one["name"] for one in programs.put("best", best)["arguments"]] == ["k", "largest"]
    assert [one["name"] for one in programs.put("best", best, k=2, power=3)["arguments"]] == ["largest"]
    assert len(best.stored(power=3)["steps"]) == len(made["steps"]) + 2 and best.stored(k=2)["steps"][3]["k"] == 2


@pytest.mark.parametrize("use", [
    lambda k: k + 1, lambda k: 2 * k, lambda k: -k, lambda k: k if k else 1, lambda k: range(k)[-1], lambda k: int(k), lambda k: [1, 2, 3, 4][k], lambda k: k == 3, lambda k: k < 3,
    lambda k: len(f"{k}"), lambda k: len(str(k)), lambda k: isinstance(k, int), lambda k: {k: 1}[k], lambda k: k.real, lambda k: k.bit_length(), lambda k: round(k), lambda k: k @ 2 if k else 1],
    ids=range(17))
def test_a_use_of_a_parameter_in_python_fixes_its_value(use):
    @tensord.program(x=spec("float32", "n"))
    def function(x, k=3, j=2):
        try:
            found = use(k)
        except Exception:  # A use that fails with a number, too.
            found = 1
        return steps.top_k(steps.top_k(x * int(found), k).values, j).values
    made = function.stored()["steps"]
    assert made[1]["k"] == 3 and made[2]["k"] == {"attr": "j", "default": 2}


@pytest.mark.parametrize("function, step", [
    (lambda x, k=1: steps.reduce_sum(x, [k]), {"axes": [1]}), (lambda x, k=1: steps.slice(x, (0, k), (1, 2)), {"starts": (0, 1)}),
    (lambda x, k=1: steps.add(x, [[k, 2]]), {"y": [[1, 2]]}), (lambda x, k=1: x * k, {"y": 1}), (lambda x, k=1: steps.maximum(x, k), {"y": 1}),
    (lambda x, k=1: steps.gather(x, [k]), {"op": "gather"}), (lambda x, k=1: steps.reshape(x, np.array([k, -1])), {"shape": [1, -1]}),
    (lambda x, k={"axis": 1}: steps.argmax(x, k["axis"]), {"axis": 1}), (lambda x, k=steps.exp: k(x), {"op": "exp"})], ids=range(9))
def test_a_parameter_that_is_not_a_whole_attribute_is_fixed_at_its_default(programs, function, step):
    made = tensord.program(x=spec("float32", 2, 2))(function)
    assert made.stored()["steps"][0].items() >= step.items()
    assert programs.put("fixed", made)["arguments"] == []


def test_results_do_not_have_names_of_arguments():
    @tensord.program(x=spec("float32", "n"))
    def function(x, k=3):
        values = steps.top_k(x, k).values
        k = values + 1
        return k
    assert [step["as"] for step in function.stored()["steps"]] == [{"values": "values"}, "k_2"]


def test_a_parameter_beside_a_tensor_is_a_number_of_the_program():
    made = tensord.program(x=spec("float32", "n"))(lambda x, factor=2.5: x * factor).stored()
    assert made["steps"][0]["y"] == 2.5


def test_stored_programs_are_listed_described_and_deleted(using, daemon, programs):
    def use(client):
        yield client.programs.put("one", best, if_none_match="*")
        info = yield client.programs.info("one")
        assert info["inputs"] == [{"name": "query", "dtype": "float32", "shape": [2]}, {"name": "ids", "dtype": "int64", "shape": ["n"]}]
        assert [one["name"] for one in (yield client.programs.list())] == ["one"]
        with pytest.raises(tensord.PreconditionFailed):
            yield client.programs.put("one", best, if_none_match="*")
        yield client.programs.delete("one", if_match=info["etag"])
        with pytest.raises(tensord.TensorNotFound):
            yield client.programs.info("one")
    using(daemon.url, use)
    programs.put("two", best.stored())
    assert [*programs] == ["two"] and len(programs) == 1 and "two" in programs and "one" not in programs


def test_results_of_a_stored_program_can_be_stored(client, programs):
    programs.put("best", best)
    assert client.store("kept", outputs=["who"]).run("best", query=[1.0, 1.0], ids=[0, 2, 1])
    assert client.tables["kept.who"].get().tolist() == [2, 1, 0]


def test_an_error_in_a_step_shows_the_line_when_the_program_is_stored(programs):
    @tensord.program(x=spec("float32", 2))
    def wrong(x):
        return steps.reshape(x, [3])
    with pytest.raises(tensord.ShapeMismatch, match=r"in wrong\n    return steps\.reshape\(x, \[3\]\)$"):
        programs.put("wrong", wrong)


@pytest.mark.parametrize("given, message", [
    ({"k": 9}, "k is 9; must be from 0 to 2, the length of axis 0 of x, which has shape [2]\n  in step 1 (best, top_k) of the program scaled"),
    ({"w": 2.0}, "has no member \"w\"; expected x, k,"), ({"x": np.ones(2, "f4"), "w": 2.0}, "has no metadata entry \"w\"; expected k,"),
    ({"w": np.ones(2)}, "If w is a parameter of the function, its value was fixed when the program was stored, because it is not an attribute of an op; to let each call"
     " choose it, declare it as a tensor, w=tensord.spec(...), and store the program again"),
    ({"x": "items"}, "x is an input of the program, but a str is an argument; for the resident tensor 'items', pass tensord.Ref('items')"),
    ({"x": "items", "k": 1}, "pass tensord.Ref('items')"), ({"x": "items", "w": [1.0]}, "pass tensord.Ref('items')"),
    ({"x": 2.0}, "x is an input of the program, but a Python number is an argument; pass an array with the dtype of the input, numpy.array(2.0, DTYPE)"),
    ({"x": np.ones(2)}, "x has dtype float64; expected float32; pass numpy.asarray(x, 'float32')"), ({"x": np.ones(2, "i4")}, "pass numpy.asarray(x, 'float32')"),
    ({"x": np.array(["a"])}, "x has dtype string; expected float32"), ({"x": tensord.Ref("wide")}, "x has dtype float64; expected float32; the op cast"),
    ({"x": np.ones((2, 2), "f4")}, "x has shape [2,2]; expected [n]"), ({"x": tensord.Ref("nothing")}, "there is no resident tensor 'nothing'")], ids=str)
def test_an_error_of_a_stored_program_shows_the_step_or_says_what_to_pass(using, daemon, client, programs, given, message):
    @tensord.program(x=spec("float32", "n"))
    def scaled(x, k=1, w=0.5):
        best = steps.top_k(x * w, k).values
        return best
    programs.put("scaled", scaled)
    client.tables["wide"].put(np.ones(2))
    for store in (False, True):
        with pytest.raises(tensord.ProblemError) as caught:
            using(daemon.url, lambda client: (client.store("kept") if store else client).run("scaled", **{"x": [1.0, 2.0], **given}))
        assert message in str(caught.value) and ("string" in message) <= ("asarray" not in str(caught.value))
    client.tables["wide"].delete()


def test_names_of_results_are_the_same_before_and_after_storing(client, programs):
    @tensord.program(x=spec("float32", "n"))
    def both(x):
        return {"low": -x, "high": x + 1}
    programs.put("both", both)
    assert [*client.run("both", x=[1.0])] == [*client.run(both, [1.0])] == ["low", "high"]
    twice = tensord.program(x=spec("float32", "n"))(lambda x: dict.fromkeys(("a", "b", "c"), -x))
    assert [*client.run(twice, [1.0])] == ["a", "b", "c"]
    with pytest.raises(TypeError, match="the results 'a' and 'b' are the same tensor, which a program returns only once\n  File"):
        programs.put("twice", twice)


def test_what_cannot_be_stored_is_refused(client, programs):
    with pytest.raises(TypeError, match=r"@tensord\.program\(x=tensord\.spec\(\.\.\.\)\)"):
        programs.put("a", tensord.program(lambda x: x + 1))
    for name in ("query", "nothing"):
        with pytest.raises(TypeError, match=f"{name} is not a parameter of best with a default"):
            programs.put("a", best, **{name: 1})
    for wrong, fixed in ((lambda x: x, {}), (best.stored(), {"k": 2})):
        with pytest.raises(TypeError, match="pass a function with the decorator"):
            programs.put("a", wrong, **fixed)
    with pytest.raises(TypeError, match="inputs and arguments by name"):
        client.run("best", [1.0, 1.0])
