"""The report page's style and its one script (column sorting), as text; nothing is loaded from outside."""

STYLE = """
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#16191d;--soft:#5b6470;--line:#dfe3e8;
--grid:#e9ecf0;--accent:#1f6feb;--tint:31,111,235;--warn-bg:#fff6e0;--warn-line:#e8c66a;--ok:#137a43;--ok-bg:#e3f5ea;--no:#8a5a00;
--no-bg:#fdf0d5;
--s0:#1f6feb;--s1:#d9480f;--s2:#0f8a6d;--s3:#9c36b5;--s4:#b08900;--s5:#c2255c;--s6:#4a7c0c;--s7:#5f6b7a}
@media(prefers-color-scheme:dark){:root{
--bg:#0f1216;--card:#171b21;--ink:#e8ebef;--soft:#98a2ae;--line:#2a313a;
--grid:#222831;--accent:#6cabff;--tint:108,171,255;--warn-bg:#2a2415;--warn-line:#6d5a23;--ok:#6fd8a0;--ok-bg:#14301f;
--no:#f0c063;--no-bg:#33280f;
--s0:#6cabff;--s1:#ff9466;--s2:#4fd1ae;--s3:#d88cf0;--s4:#e3c04a;--s5:#ff85ab;--s6:#9fd356;
--s7:#a9b4c0}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:17px;margin:0 0 4px}
p{margin:0 0 12px;color:var(--soft);max-width:80ch}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px;margin-top:20px}
.notice{background:var(--warn-bg);border:1px solid var(--warn-line);border-radius:12px;padding:12px 20px;
margin-top:20px}
.notice ul{margin:4px 0 0;padding-left:20px}
.legend{display:flex;flex-wrap:wrap;gap:6px 20px;margin:8px 0 4px;font-size:13px;color:var(--soft)}
.legend span{display:inline-flex;align-items:center;gap:6px}
.legend svg{width:18px;height:18px}
.plot{overflow-x:auto}
.plot svg{display:block;width:100%;min-width:560px;height:auto}
.grid{stroke:var(--grid);fill:none}.axis{stroke:var(--soft);fill:none}
.tick,.title,.hint{fill:var(--soft);font-size:12px}.title{font-size:13px}.hint{font-style:italic}
.label{fill:var(--ink);font-size:12.5px;paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
.front{fill:none;stroke:var(--soft);stroke-width:1.5;stroke-dasharray:5 4}
.line{fill:none;stroke-width:1.6}.line.a{stroke:var(--s0)}.line.b{stroke:var(--s2)}.line.c{stroke:var(--s1)}
.line.d{stroke:var(--s3)}
.curves{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,480px),1fr));gap:24px}
figure{margin:0}figcaption small{display:block;color:var(--soft)}figure svg{width:100%;height:auto}
h3{font-size:14.5px;margin:20px 0 4px}
small.mark{color:var(--no)}
.mark{stroke:var(--card);stroke-width:1.5px}.plain{fill:var(--soft)}
.s0{fill:var(--s0)}.s1{fill:var(--s1)}.s2{fill:var(--s2)}.s3{fill:var(--s3)}
.s4{fill:var(--s4)}.s5{fill:var(--s5)}.s6{fill:var(--s6)}.s7{fill:var(--s7)}
.scroll{overflow-x:auto;margin:8px -20px -8px;padding:0 20px 8px}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{padding:7px 10px;text-align:left;border-bottom:1px solid var(--line);vertical-align:middle}
thead th{color:var(--soft);font-weight:600;font-size:12.5px;vertical-align:bottom}
tbody tr:last-child td,tbody tr:last-child th{border-bottom:0}
tbody tr:hover{background:rgba(var(--tint),.06)}
.n{text-align:right;white-space:nowrap}
td.name{font-weight:600;min-width:150px}td.name small{white-space:normal;overflow-wrap:anywhere}
tbody th{font-weight:500;white-space:nowrap}
td small,th small{display:block;white-space:nowrap;color:var(--soft);font-weight:400}
th button{all:unset;cursor:pointer;color:inherit}th button:hover{color:var(--accent)}
th button:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
th[aria-sort=ascending] button::after{content:" \\2191"}
th[aria-sort=descending] button::after{content:" \\2193"}
.proof{display:inline-block;border-radius:99px;padding:1px 9px;font-size:12.5px;
background:var(--no-bg);color:var(--no)}
.proof.executed{background:var(--ok-bg);color:var(--ok)}
.stages{display:block;width:130px;height:10px}
.stages .a{fill:var(--s2)}.stages .b{fill:var(--s0)}.stages .c{fill:var(--s1)}
.swatch{width:10px;height:10px;border-radius:3px;display:inline-block}
.swatch.a{background:var(--s2)}.swatch.b{background:var(--s0)}.swatch.c{background:var(--s1)}
.absent{color:var(--soft)}
details{border-top:1px solid var(--line);padding:8px 0}details:first-of-type{border-top:0}
summary{cursor:pointer;font-weight:600;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:minmax(90px,max-content) 1fr;gap:3px 16px;margin:8px 0;font-size:13.5px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
code{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
@media(max-width:600px){
main{padding:20px 12px 40px}section{padding:16px 14px}.scroll{margin:8px -14px -8px;padding:0 14px 8px}
.plot svg{min-width:0}.tick{font-size:24px}.title{font-size:24px}.label,.hint{display:none}
path.mark{transform-box:fill-box;transform-origin:center;transform:scale(2)}
.curves .tick,.curves .title{font-size:18px}
.sortable thead{display:none}.sortable tr{display:grid;grid-template-columns:1fr 1fr 1fr;padding:10px 0;
border-bottom:1px solid var(--line)}
.sortable td{border:0;padding:4px 8px 4px 0;text-align:left;white-space:normal}
.sortable td.name{grid-column:1/-1}
.sortable td:not(.name)::before{content:attr(data-head);display:block;color:var(--soft);font-size:12px}
.sortable td small{white-space:normal}.stages{width:100%}}
"""

SCRIPT = """
document.querySelectorAll("table.sortable").forEach(function(table){
  table.querySelectorAll("thead th").forEach(function(head,column){
    var button=head.querySelector("button");
    if(!button)return;
    button.addEventListener("click",function(){
      var down=head.getAttribute("aria-sort")==="ascending";
      table.querySelectorAll("th").forEach(function(other){other.removeAttribute("aria-sort")});
      head.setAttribute("aria-sort",down?"descending":"ascending");
      var body=table.tBodies[0];
      Array.from(body.rows).sort(function(a,b){
        var x=a.cells[column].dataset.v,y=b.cells[column].dataset.v;
        if(x===""||y==="")return (x==="")-(y==="");
        var order=isNaN(x)||isNaN(y)?x.localeCompare(y):x-y;
        return down?-order:order;
      }).forEach(function(row){body.appendChild(row)});
    });
  });
});
"""
