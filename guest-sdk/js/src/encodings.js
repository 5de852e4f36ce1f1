// The encodings of texts that others write, which are not always UTF-8.

/** The characters for the bytes from 0x80 to 0xff. */
const TABLES = {
  "windows-1252":
    "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ",
  "windows-1250":
    "€\u0081‚\u0083„…†‡\u0088‰Š‹ŚŤŽŹ\u0090‘’“”•–—\u0098™š›śťžź\u00a0ˇ˘Ł¤Ą¦§¨©Ş«¬\u00ad®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
  "windows-1251":
    "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\u0098™љ›њќћџ\u00a0ЎўЈ¤Ґ¦§Ё©Є«¬\u00ad®Ї°±Ііґµ¶·ё№є»јЅѕїАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя",
  "windows-1253":
    "€\u0081‚ƒ„…†‡\u0088‰\u008a‹\u008c\u008d\u008e\u008f\u0090‘’“”•–—\u0098™\u009a›\u009c\u009d\u009e\u009f\u00a0΅Ά£¤¥¦§¨©\ufffd«¬\u00ad®―°±²³΄µ¶·ΈΉΊ»Ό½ΎΏΐΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡ\ufffdΣΤΥΦΧΨΩΪΫάέήίΰαβγδεζηθικλμνξοπρςστυφχψωϊϋόύώ\ufffd",
  "windows-1254":
    "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008d\u008e\u008f\u0090‘’“”•–—˜™š›œ\u009d\u009eŸ\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏĞÑÒÓÔÕÖ×ØÙÚÛÜİŞßàáâãäåæçèéêëìíîïğñòóôõö÷øùúûüışÿ",
  "windows-1257":
    "€\u0081‚\u0083„…†‡\u0088‰\u008a‹\u008c¨ˇ¸\u0090‘’“”•–—\u0098™\u009a›\u009c¯˛\u009f\u00a0\ufffd¢£¤\ufffd¦§Ø©Ŗ«¬\u00ad®Æ°±²³´µ¶·ø¹ŗ»¼½¾æĄĮĀĆÄÅĘĒČÉŹĖĢĶĪĻŠŃŅÓŌÕÖ×ŲŁŚŪÜŻŽßąįāćäåęēčéźėģķīļšńņóōõö÷ųłśūüżž˙",
  "iso-8859-2":
    "\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f\u00a0Ą˘Ł¤ĽŚ§¨ŠŞŤŹ\u00adŽŻ°ą˛ł´ľśˇ¸šşťź˝žżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
  "iso-8859-5":
    "\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f\u00a0ЁЂЃЄЅІЇЈЉЊЋЌ\u00adЎЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя№ёђѓєѕіїјљњћќ§ўџ",
  "iso-8859-7":
    "\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f\u00a0‘’£€₯¦§¨©ͺ«¬\u00ad\ufffd―°±²³΄΅Ά·ΈΉΊ»Ό½ΎΏΐΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡ\ufffdΣΤΥΦΧΨΩΪΫάέήίΰαβγδεζηθικλμνξοπρςστυφχψωϊϋόύώ\ufffd",
  "iso-8859-15":
    "\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f\u00a0¡¢£€¥Š§š©ª«¬\u00ad®¯°±²³Žµ¶·ž¹º»ŒœŸ¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ",
  "koi8-r":
    "─│┌┐└┘├┤┬┴┼▀▄█▌▐░▒▓⌠■∙√≈≤≥\u00a0⌡°²·÷═║╒ё╓╔╕╖╗╘╙╚╛╜╝╞╟╠╡Ё╢╣╤╥╦╧╨╩╪╫╬©юабцдефгхийклмнопярстужвьызшэщчъЮАБЦДЕФГХИЙКЛМНОПЯРСТУЖВЬЫЗШЭЩЧЪ",
  "koi8-u":
    "─│┌┐└┘├┤┬┴┼▀▄█▌▐░▒▓⌠■∙√≈≤≥\u00a0⌡°²·÷═║╒ёє╔ії╗╘╙╚╛ґ╝╞╟╠╡ЁЄ╣ІЇ╦╧╨╩╪Ґ╬©юабцдефгхийклмнопярстужвьызшэщчъЮАБЦДЕФГХИЙКЛМНОПЯРСТУЖВЬЫЗШЭЩЧЪ",
};

/** The names of encodings that are not those of their tables, as the Encoding Standard of browsers defines them. */
const NAMES = {
  ascii: "windows-1252", cp1250: "windows-1250", cp1251: "windows-1251", cp1252: "windows-1252", cp1253: "windows-1253",
  cp1254: "windows-1254", cp1257: "windows-1257", "iso-8859-1": "windows-1252", "iso-8859-9": "windows-1254",
  "iso8859-1": "windows-1252", "iso8859-15": "iso-8859-15", "iso8859-2": "iso-8859-2", koi8: "koi8-r", latin1: "windows-1252",
  latin2: "iso-8859-2", "us-ascii": "windows-1252", "utf-16": "utf-16le", utf16: "utf-16le", utf8: "utf-8",
};
/** Encodings with more characters than fit into a table. */
const NOT_SUPPORTED = /^(big5|euc-|gb|iso-2022-|ks_c|shift|sjis|windows-31j|x-sjis)/;
const MARKS = [["utf-8", 0xef, 0xbb, 0xbf], ["utf-16le", 0xff, 0xfe], ["utf-16be", 0xfe, 0xff]];
/** The declaration of an encoding in XML or HTML. */
const DECLARED = /<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)|<meta[^>]*?charset\s*=\s*["']?([\w.:-]+)/i;

/**
 * Decodes bytes as they say: by a byte order mark, else by the `charset` of their content type, else by the encoding that an
 * HTML or XML document declares, else as UTF-8. Throws a RangeError if that is an encoding which is not supported.
 */
export function decode(bytes, contentType = "") {
  const [marked, ...mark] = MARKS.find(([, ...start]) => start.every((byte, at) => bytes[at] === byte)) ?? [];
  if (marked) return decodeAs(marked, bytes.subarray(mark.length));
  const named = /charset\s*=\s*["']?([\w.:-]+)/i.exec(contentType)?.[1] ?? declared(bytes, contentType);
  return decodeAs(encodingOf(named ?? "utf-8"), bytes);
}

function declared(bytes, contentType) {
  if (!/html|xml/i.test(contentType)) return undefined;
  const found = DECLARED.exec(String.fromCharCode(...bytes.subarray(0, 1024)));
  return found?.[1] ?? found?.[2];
}

/** Returns the encoding with a name; UTF-8 if no encoding has it. */
function encodingOf(name) {
  const lower = name.toLowerCase().replaceAll("_", "-");
  const encoding = NAMES[lower] ?? lower;
  if (NOT_SUPPORTED.test(encoding)) {
    throw new RangeError(`decoding a text in \`${name}\`: this encoding is not supported; use the bytes, or Python`);
  }
  return encoding.startsWith("utf-16") || Object.hasOwn(TABLES, encoding) ? encoding : "utf-8";
}

function decodeAs(encoding, bytes) {
  if (encoding === "utf-8") return new TextDecoder().decode(bytes);
  const parts = [];
  if (encoding.startsWith("utf-16")) {
    const first = encoding === "utf-16le" ? 0 : 1;
    for (let at = 0; at + 1 < bytes.length; at += 2) {
      parts.push(String.fromCharCode(bytes[at + first] | (bytes[at + 1 - first] << 8)));
    }
  } else {
    for (const byte of bytes) parts.push(byte < 0x80 ? String.fromCharCode(byte) : TABLES[encoding][byte - 0x80]);
  }
  return parts.join("").toWellFormed();
}
