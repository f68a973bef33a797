"use strict";(self.rspackChunknki_lab=self.rspackChunknki_lab||[]).push([[0],{16(e,n,o){var t=o(17),r=o.n(t),a=o(18),i=(o.n(a))()(r());i.push([e.id,`/* Only in editors: the views of a run have classes of ours too.
   Python's own spans lie inside ours and have colours: \`*\` reaches them. */

body {
  --nki-isa-color: #a23a00;
  --nki-language-color: #00658a;
  --nki-option-color: #6f3fa0;
}

body[data-jp-theme-light='false'] {
  --nki-isa-color: #ff9e64;
  --nki-language-color: #6cc7ee;
  --nki-option-color: #c9a5f0;
}

.cm-editor .nki-magic-line {
  background: var(--jp-layout-color2);
  box-shadow: inset 3px 0 var(--nki-isa-color);
}

.cm-editor .nki-magic,
.cm-editor .nki-magic * {
  color: var(--nki-isa-color);
  font-weight: bold;
}

.cm-editor .nki-option,
.cm-editor .nki-option * {
  color: var(--nki-option-color);
}

.cm-editor .nki-value,
.cm-editor .nki-value * {
  color: var(--nki-language-color);
}

.cm-editor .nki-isa,
.cm-editor .nki-isa * {
  color: var(--nki-isa-color);
}

.cm-editor .nki-language,
.cm-editor .nki-language *,
.cm-editor .nki-api,
.cm-editor .nki-api * {
  color: var(--nki-language-color);
}
`,""]),o.d(n,{},{A:i})},18(e){e.exports=function(e){var n=[];return n.toString=function(){return this.map(function(n){var o="",t=void 0!==n[5];return n[4]&&(o+="@supports (".concat(n[4],") {")),n[2]&&(o+="@media ".concat(n[2]," {")),t&&(o+="@layer".concat(n[5].length>0?" ".concat(n[5]):""," {")),o+=e(n),t&&(o+="}"),n[2]&&(o+="}"),n[4]&&(o+="}"),o}).join("")},n.i=function(e,o,t,r,a){"string"==typeof e&&(e=[[null,e,void 0]]);var i={};if(t)for(var c=0;c<this.length;c++){var s=this[c][0];null!=s&&(i[s]=!0)}for(var l=0;l<e.length;l++){var u=[].concat(e[l]);t&&i[u[0]]||(void 0!==a&&(void 0===u[5]||(u[1]="@layer".concat(u[5].length>0?" ".concat(u[5]):""," {").concat(u[1],"}")),u[5]=a),o&&(u[2]&&(u[1]="@media ".concat(u[2]," {").concat(u[1],"}")),u[2]=o),r&&(u[4]?(u[1]="@supports (".concat(u[4],") {").concat(u[1],"}"),u[4]=r):u[4]="".concat(r)),n.push(u))}},n}},17(e){e.exports=function(e){return e[1]}},10(e){var n=[];function o(e){for(var o=-1,t=0;t<n.length;t++)if(n[t].identifier===e){o=t;break}return o}function t(e,t){for(var r={},a=[],i=0;i<e.length;i++){var c=e[i],s=t.base?c[0]+t.base:c[0],l=r[s]||0,u="".concat(s," ").concat(l);r[s]=l+1;var d=o(u),p={css:c[1],media:c[2],sourceMap:c[3],supports:c[4],layer:c[5]};if(-1!==d)n[d].references++,n[d].updater(p);else{var f=function(e,n){var o=n.domAPI(n);return o.update(e),function(n){n?(n.css!==e.css||n.media!==e.media||n.sourceMap!==e.sourceMap||n.supports!==e.supports||n.layer!==e.layer)&&o.update(e=n):o.remove()}}(p,t);t.byIndex=i,n.splice(i,0,{identifier:u,updater:f,references:1})}a.push(u)}return a}e.exports=function(e,r){var a=t(e=e||[],r=r||{});return function(e){e=e||[];for(var i=0;i<a.length;i++){var c=o(a[i]);n[c].references--}for(var s=t(e,r),l=0;l<a.length;l++){var u=o(a[l]);0===n[u].references&&(n[u].updater(),n.splice(u,1))}a=s}}},12(e){var n={};e.exports=function(e,o){var t=function(e){if(void 0===n[e]){var o=document.querySelector(e);if(window.HTMLIFrameElement&&o instanceof window.HTMLIFrameElement)try{o=o.contentDocument.head}catch(e){o=null}n[e]=o}return n[e]}(e);if(!t)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");t.appendChild(o)}},14(e){e.exports=function(e){var n=document.createElement("style");return e.setAttributes(n,e.attributes),e.insert(n,e.options),n}},13(e,n,o){e.exports=function(e){var n=o.nc;n&&e.setAttribute("nonce",n)}},11(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var n=e.insertStyleElement(e);return{update:function(o){var t,r,a;t="",o.supports&&(t+="@supports (".concat(o.supports,") {")),o.media&&(t+="@media ".concat(o.media," {")),(r=void 0!==o.layer)&&(t+="@layer".concat(o.layer.length>0?" ".concat(o.layer):""," {")),t+=o.css,r&&(t+="}"),o.media&&(t+="}"),o.supports&&(t+="}"),(a=o.sourceMap)&&"u">typeof btoa&&(t+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(a))))," */")),e.styleTagTransform(t,n,e.options)},remove:function(){var e;null===(e=n).parentNode||e.parentNode.removeChild(e)}}}},15(e){e.exports=function(e,n){if(n.styleSheet)n.styleSheet.cssText=e;else{for(;n.firstChild;)n.removeChild(n.firstChild);n.appendChild(document.createTextNode(e))}}},9(e,n,o){var t=o(10),r=o.n(t),a=o(11),i=o.n(a),c=o(12),s=o.n(c),l=o(13),u=o.n(l),d=o(14),p=o.n(d),f=o(15),v=o.n(f),m=o(16),h={};h.styleTagTransform=v(),h.setAttributes=u(),h.insert=s().bind(null,"head"),h.domAPI=i(),h.insertStyleElement=p(),r()(m.A,h),m.A&&m.A.locals&&m.A.locals}}]);