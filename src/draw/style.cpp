#include "draw/style.h"

namespace flyball {
namespace {

// Planner colours: Okabe and Ito's set, its yellow and black replaced (unreadable on white and on black).
constexpr std::string_view kChartCss = R"(
:root{--paper:#fff;--ink:#1a1f26;--soft:#56606c;--line:#d5dae0;--grid:#e8ebee;--bubble:#e4e7eb;--critical:#d5460b;
--p0:#0072b2;--p1:#e08700;--p2:#009e73;--p3:#b8548f;--p4:#3ba3dc;--p5:#d55e00;--p6:#7a7f87;--p7:#6b5bd2;--p8:#8a6a2f;
--p9:#7d9a00;
--font:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans","Liberation Sans",Arial,sans-serif}
@media(prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e7eaee;--soft:#a2acb8;--line:#3b434c;--grid:#262c33;
--bubble:#2b3138;--critical:#ff8a4c;--p0:#4da6e8;--p1:#f0a630;--p2:#2cc295;--p3:#de8abb;--p4:#8fd0f5;--p5:#f08040;
--p6:#a9afb8;--p7:#a59af0;--p8:#c8a968;--p9:#b7cf45}}
svg text{font-family:var(--font);font-size:12px;fill:var(--ink);font-variant-numeric:tabular-nums}
svg .paper{fill:var(--paper)}
svg .soft{fill:var(--soft)}
svg .on-dark{fill:#fff}
svg .on-light{fill:#000}
svg .small{font-size:11px}
svg .tiny{font-size:9.5px}
svg .strong{font-weight:600}
svg .heading{font-size:13px;font-weight:600}
svg .halo{paint-order:stroke;stroke:var(--paper);stroke-width:3.5px;stroke-linejoin:round}
svg .axis{stroke:var(--line);stroke-width:1;fill:none}
svg .grid{stroke:var(--grid);stroke-width:1;fill:none}
svg .frame{fill:none;stroke:var(--line);stroke-width:1}
svg .bubble{fill:var(--bubble)}
svg .op{stroke:var(--paper);stroke-width:.75}
svg .critical{fill:none;stroke:var(--critical);stroke-width:2.5;stroke-linejoin:round;stroke-linecap:round}
svg .under{fill:none;stroke:var(--paper);stroke-width:5;stroke-linejoin:round;stroke-linecap:round}
svg .mark{stroke:var(--soft);stroke-width:1;stroke-dasharray:3 3;fill:none}
svg .straggler{stroke:var(--critical);stroke-width:1.25;stroke-dasharray:6 3;fill:none}
svg .bound{stroke:var(--ink);stroke-width:1.25;fill:none;stroke-dasharray:1.5 3;stroke-linecap:round}
svg .leader{stroke:var(--soft);stroke-width:.75;fill:none}
svg .chosen{fill:none;stroke:var(--ink);stroke-width:2}
svg .curve{fill:none;stroke-width:1.75;stroke-linejoin:round}
svg .hull{fill:none;stroke:var(--p0);stroke-width:1.5;stroke-linejoin:round}
svg .fit{fill:none;stroke:var(--p5);stroke-width:1.5;stroke-dasharray:5 3}
svg .option{fill:var(--paper);stroke:var(--p6);stroke-width:1}
svg .pareto{fill:var(--p0);stroke:var(--p0);stroke-width:1}
svg .used{fill:none;stroke:var(--critical);stroke-width:1.75}
svg .hit{fill:transparent;stroke:none}
svg .s0{stroke:var(--p0)}svg .s1{stroke:var(--p1)}svg .s2{stroke:var(--p2)}svg .s3{stroke:var(--p3)}
svg .s4{stroke:var(--p4)}svg .s5{stroke:var(--p5)}svg .s6{stroke:var(--p6)}svg .s7{stroke:var(--p7)}svg .s8{stroke:var(--p8)}
svg .s9{stroke:var(--p9)}
svg .f0{fill:var(--p0)}svg .f1{fill:var(--p1)}svg .f2{fill:var(--p2)}svg .f3{fill:var(--p3)}
svg .f4{fill:var(--p4)}svg .f5{fill:var(--p5)}svg .f6{fill:var(--p6)}svg .f7{fill:var(--p7)}svg .f8{fill:var(--p8)}
svg .f9{fill:var(--p9)}
svg .f0,svg .f1,svg .f2,svg .f3,svg .f4,svg .f5,svg .f6,svg .f7,svg .f8,
svg .f9{stroke:var(--paper);stroke-width:.75}
)";

constexpr std::string_view kPageCss = R"(
*{box-sizing:border-box}
html{color-scheme:light dark;background:var(--paper);color:var(--ink);font:16px/1.5 var(--font);
-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:1180px;padding:1.5rem 1.25rem 4rem;font-variant-numeric:tabular-nums}
h1{font-size:1.15rem;font-weight:600;color:var(--soft);margin:0 0 .5rem;line-height:1.35;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.75rem 0 .35rem;line-height:1.3}
h3{font-size:1rem;margin:1.5rem 0 .25rem}
p{margin:.35rem 0 .75rem;max-width:72ch}
.headline{font-size:clamp(1.3rem,1rem + 1.6vw,1.95rem);line-height:1.3;margin:.25rem 0 1.25rem;max-width:42ch;
font-weight:500}
.headline strong{color:var(--p0);font-weight:700}
.note{color:var(--soft);font-size:.9rem}
.scroll{overflow-x:auto;max-width:100%}
.scroll:focus-visible,.view:focus-visible,button:focus-visible,input:focus-visible,summary:focus-visible{
outline:2px solid var(--p0);outline-offset:2px}
table{border-collapse:collapse;font-size:.9rem;margin:.5rem 0 1rem}
caption{text-align:left;color:var(--soft);padding:.2rem 0}
th,td{padding:.3rem .75rem;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
th:first-child,td:first-child{padding-left:0}
th{font-weight:600;vertical-align:bottom;white-space:normal;border-bottom-color:var(--line)}
th small{display:block;font-weight:400;color:var(--soft);font-size:.8rem}
tbody th{font-weight:400;white-space:nowrap;border-bottom-color:var(--grid)}
.left{text-align:left}
.wrap th{white-space:normal}
tbody th.part{padding-left:1.1rem;color:var(--soft)}
tr.selected td,tr.selected th{font-weight:600;background:var(--bubble)}
svg{display:block;height:auto;max-width:100%}
svg.wide{width:100%}
svg.narrow{display:none;width:100%}
@media(max-width:720px){svg.wide{display:none}svg.narrow{display:block}body{padding:1rem .9rem 3rem}
table{font-size:.82rem}th,td{padding:.3rem .4rem}}
.multiples{display:grid;grid-template-columns:repeat(auto-fill,minmax(250px,1fr));gap:.5rem 1rem;margin:.5rem 0}
.multiples svg{width:100%}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;font-size:.85rem;color:var(--soft);align-items:center;
margin:.5rem 0}
.legend span{display:inline-flex;align-items:center;gap:.4rem}
.legend svg{flex:none}
.bar{display:inline-block;width:140px;height:12px;border-radius:2px}
.swatch{display:inline-block;width:22px;height:12px;background:var(--bubble);border-radius:2px}
.rule{display:inline-block;width:22px;border-top:3px solid var(--critical)}
.tools{display:flex;flex-wrap:wrap;gap:.4rem;align-items:center;margin:.75rem 0 .5rem}
.tools input{flex:1 1 160px;min-width:120px;accent-color:var(--p0)}
button{font:inherit;font-size:.85rem;padding:.25rem .65rem;min-height:2rem;border:1px solid var(--line);border-radius:6px;
background:var(--paper);color:var(--ink);cursor:pointer}
button:hover{background:var(--bubble)}
button[aria-pressed=true]{background:var(--bubble);border-color:var(--soft)}
.view{touch-action:pan-y;cursor:grab;user-select:none;-webkit-user-select:none;position:relative;border-radius:4px}
.view.dragging{cursor:grabbing}
.view svg{max-width:none}
.view .lit{stroke:var(--ink);stroke-width:2}
.tip{position:fixed;z-index:9;pointer-events:none;background:var(--ink);color:var(--paper);padding:.4rem .6rem;
border-radius:6px;font-size:.82rem;line-height:1.4;white-space:pre-line;max-width:19rem;box-shadow:0 2px 10px #0005}
.tip[hidden]{display:none}
pre{background:var(--bubble);padding:.75rem 1rem;border-radius:6px;overflow-x:auto;font-size:.85rem;line-height:1.5}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem;font-size:.9rem;max-width:80ch}
dt{font-weight:600}dd{margin:0;color:var(--soft)}
@media(max-width:720px){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}}
@media print{.tools{display:none}h2{break-after:avoid}}
)";

}  // namespace

std::string_view chart_css() { return kChartCss; }

std::string_view page_css() { return kPageCss; }

}  // namespace flyball
