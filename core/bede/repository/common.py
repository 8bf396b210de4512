"""What payloads have in common, so that a short one need not say it again.

A deflated payload is told by a checksum of this text that it was used: it must never change.
"""

from __future__ import annotations

#: Ordinary words of prose about programs, then of programs, then the frame of a turn: what is nearest the end is
#: cheapest to name.
COMMON = (
    b" comprehensive approach architecture authentication available backend behavior branch browser "
    b"button cache client command commit compatible complete component condition configuration connection "
    b"consistent container context correct coverage create current currently database default "
    b"dependencies describe detailed different directory documentation duplicate endpoint ensure "
    b"environment error events everything exactly example exception execute existing expected external "
    b"failed failing feature field format framework frontend generate global handle helper however "
    b"implementation implement import improve include information initial input install instead "
    b"integration interface internal issue language layer library limit list local logic manager message "
    b"method migration missing model module multiple necessary network number object operation option "
    b"order original output package parameter parse pattern performance permission platform plugin "
    b"possible previous problem process production project property provider question reason reference "
    b"register release remaining remove render replace report repository request require required "
    b"resource response result return review running schema script search section server service session "
    b"settings several should simple single solution source specific standard started state status "
    b"storage string structure success support system table target template terminal thread through "
    b"timeout together token tracking transaction type undefined understand unique update upload user "
    b"using validation value variable version warning whether without working workflow write written "
    b"already because before between both called changes check code config content could data does done "
    b"each file files find first fixed following function have here into just know line look make more "
    b"most must name need needs next only other path place point read same see server set since some "
    b"still sure than them then there they time tests use used user want was well were what when where "
    b"which while will work would you your these those after about also been being and are but can for "
    b"from get had has how its like new not now one our out run test that the this with all any as at be "
    b"by do if in is it of on or so to we a an I I'll I'm I've it's don't that's Let me Now let me Now I "
    b"can see The issue is I need to We should Looking at the of the in the to the on the for the from "
    b"the with the and the is the that the should be will be to be is not does not there is this is need "
    b"to want to how to make sure going to as well, so that, which is, and then. It is. This\\n\\n## "
    b"\\n\\n### \\n\\n- **\\n- `\\n1. \\n2. \\n```\\n\\n```bash\\n```python\\n"
    b"| | **: ** - (`.py`, `.ts`, `.md`, "
    b'`src/\\n\\t\\tif err != nil {\\n\\t\\t\\treturn nil, fmt.Errorf(\\"f'
    b'ailed to : %w\\", err)\\n\\t\\t}\\n\\n\\tfunc '
    b"(s *) string {\\n  const  = await \\n  export async function  => {\\n    } catch (error) {\\n    "
    b'console.log(`${}`);\\n  });\\n};\\n<div className=\\"\\">\\n      '
    b"</div>\\npublic static void  throws  "
    b"this.  null;  true;  false;\\nimport \\nfrom  import \\nclass \\"
    b'n    \\"\\"\\" \\n    def __init__(self, : '
    b'str) -> None:\\n        self. = \\n        if  is None:\\n            raise ValueError(f\\"\\n        '
    b"return [ for  in \\n        assert  == \\n\\n    with open(\\n  "
    b"  try:\\n    except Exception as e:\\n    "
    b"@pytest.fixture\\n    for  in  isinstance(  len(\\n\\n\\n"
    b'"cwd":"","branch":"main","version":"1.0."}","replayed":true,"side":true,"speaker":"injected",'
    b'"denied":true,"output":"Error: ","usage":{"":{"cache_read":1,"cache_write":1,"input":1,'
    b'"model":"claude-sonnet-4-5-20250929","output":1,"reasoning":1}}}{"at":1763681,"by":"human","key":"",'
    b'"line":1,"origin":"=","parent":"","parts":[{"text":"please fix the test and run it again"}],'
    b'"precision":"ms","session":"","until":176}{"at":17,"by":"assistant","key":"","line":,'
    b'"model":"claude-opus-4-5","origin":"=","parent":"","parts":[{"text":"Now let me check the file. The '
    b'"},{"call":"toolu_01","exit_status":0,"ok":true,"sort":"shell","target":"cd && git status",'
    b'"tool":"Bash"},{"call":"call_","edits":[{"new":"","old":"","path":"/src/"}],"ok":true,'
    b'"sort":"edit","target":"","tool":"Edit"},{"call":"","ok":true,"sort":"read","target":"",'
    b'"tool":"Read"}'
)
