"""The notation of `*** Begin Patch`: files added, updated, deleted and moved, however it is wrapped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bede.sources import patch
from bede.sources.port import Edit

FOUR = """*** Begin Patch
*** Add File: docs/a note.md
+# Note
+
+text
*** Update File: src/a.py
@@ def f():
 context
-x = 1
+x = 2
@@
-y
*** Update File: old.py
*** Move to: new.py
@@
-a
+b
*** Delete File: gone.py
*** End Patch"""


def test_each_file_is_told_with_what_happens_to_it() -> None:
    assert patch.edits(FOUR) == (
        Edit("docs/a note.md", "create", new="# Note\n\ntext\n"),
        Edit("src/a.py", patch="@@ def f():\n context\n-x = 1\n+x = 2\n@@\n-y"),
        Edit("old.py", "move", patch="@@\n-a\n+b", moved_to="new.py"),
        Edit("gone.py", "delete"),
    )


def test_wrapping_changes_nothing() -> None:
    plain = patch.edits(FOUR)
    for text in (
        f"cd src && apply_patch << 'PATCH'\n{FOUR}\nPATCH\npytest -q",
        FOUR + "\n\n",
        FOUR.removesuffix("*** End Patch"),
        FOUR.removeprefix("*** Begin Patch\n"),
        FOUR.replace("\n", "\r\n"),
        FOUR.replace("*** Begin Patch\n", "*** Begin Patch\n*** Environment ID: local\n"),
        'await tools.apply_patch("' + FOUR.replace("\n", "\\n") + '");',
        f"await tools.apply_patch(`{FOUR}`);",
    ):
        assert patch.edits(text) == plain, text


def test_two_patches_in_one_text_are_both_read() -> None:
    first, second = "*** Begin Patch\n*** Delete File: a\n", "*** Begin Patch\n*** Delete File: b\n*** End Patch\n"
    assert [edit.path for edit in patch.edits(first + "*** End Patch\n;\n" + second)] == ["a", "b"]
    assert [edit.path for edit in patch.edits(first + second)] == ["a", "b"]


def test_a_patch_of_a_text_about_patches_is_one_patch() -> None:
    text = "*** Begin Patch\n*** Add File: how.md\n+*** Begin Patch\n+*** Delete File: x\n+*** End Patch\n*** End Patch"
    assert patch.edits(text) == (Edit("how.md", "create", new="*** Begin Patch\n*** Delete File: x\n*** End Patch\n"),)
    context = "*** Begin Patch\n*** Update File: how.md\n@@\n *** End Patch\n+more\n*** End Patch"
    assert patch.edits(context) == (Edit("how.md", patch="@@\n *** End Patch\n+more"),)


def test_a_line_ends_with_a_line_feed_only() -> None:
    assert patch.edits("*** Begin Patch\n*** Add File: a\n+one\u2028two\x0bthree\n*** End Patch")[0].new == (
        "one\u2028two\x0bthree\n"
    )


def test_what_is_no_patch_asks_for_nothing() -> None:
    for text in ("", "*** Begin Patch", "*** Begin Patch\n*** End Patch", "*** Add File:", "diff --git a/x b/x\n"):
        assert patch.edits(text) == (), text
    assert patch.edits("*** Begin Patch\n*** Add File: \n+x\n*** Delete File: b\n*** End Patch") == (
        Edit("b", "delete"),
    )


def test_a_text_is_shortened_to_the_paths_of_its_patches() -> None:
    text = f"cd src && apply_patch << 'PATCH'\n{FOUR}\nPATCH\npytest -q"
    assert patch.shortened(text) == (
        "cd src && apply_patch << 'PATCH'\ndocs/a note.md src/a.py old.py gone.py\nPATCH\npytest -q"
    )
    assert patch.shortened("nothing here") == "nothing here"
    assert patch.shortened("*** Begin Patch\n*** End Patch") == "*** Begin Patch\n*** End Patch"


LINES = ["*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Update File: b", "*** Move to: c"]
PIECES = [*LINES, "*** Delete File:", "\\n", "\n", "\r\n", "+x", "-y", " z", "@@", "\ud83d", "\x00", "\\u12", "\\"]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join))
def test_any_text_gives_edits_with_a_path(text: str) -> None:
    assert all(edit.path for edit in patch.edits(text))
    patch.shortened(text)
