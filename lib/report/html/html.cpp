#include "report/html/html.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace trainctl::report {

/// The only access to the markup of a piece.
struct Markup {
  static Html of(std::string text) {
    Html piece;
    piece.markup_ = std::move(text);
    return piece;
  }
};

namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";
/// Void elements. SVG shapes are not among them, because they may contain a <title>.
constexpr std::array<std::string_view, 4> kVoid{"meta", "br", "img", "hr"};

/// Returns whether this is a bidirectional embedding, override or isolate: U+202A to U+202E, U+2066
/// to U+2069.
bool turns_direction(std::string_view character) {
  if (character.size() != 3 || character[0] != '\xE2') return false;
  const auto second = static_cast<unsigned char>(character[1]);
  const auto third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 && third >= 0xAA && third <= 0xAE) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

void append_byte(std::string& safe, char c) {
  switch (c) {
    case '&': safe += "&amp;"; break;
    case '<': safe += "&lt;"; break;
    case '>': safe += "&gt;"; break;
    case '"': safe += "&quot;"; break;
    case '\'': safe += "&#39;"; break;
    default: {
      const auto byte = static_cast<unsigned char>(c);
      const bool is_control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
      if (is_control) {
        safe += kReplacement;
      } else {
        safe += c;
      }
    }
  }
}

void check(const Attribute& attribute) {
  const std::string_view name = attribute.name.view();
  if (name == "href") ASSERT(attribute.value.starts_with('#'));
  if (name == "src") ASSERT(attribute.value.starts_with("data:image/png;base64,"));
  ASSERT(!name.starts_with("on") && name != "style");  // forbidden by the page's policy
}

std::string opening(Literal tag, const Attributes& attributes) {
  std::string text = "<" + std::string(tag.view());
  for (const Attribute& attribute : attributes) {
    check(attribute);
    text += " " + std::string(attribute.name.view()) + "=\"" + escaped(attribute.value) + "\"";
  }
  return text + ">";
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      safe += kReplacement;
    } else if (length == 1) {
      append_byte(safe, text.front());
    } else {
      const std::string_view character = text.substr(0, length);
      const bool is_c1 =
          length == 2 && character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
      safe += is_c1 || turns_direction(character) ? std::string_view(kReplacement) : character;
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return safe;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= count ? kDigits[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

Html::Html(std::string_view text) : markup_(escaped(text)) {}

Html& Html::operator+=(const Html& more) {
  markup_ += more.markup_;
  return *this;
}

Html element(Literal tag, const Attributes& attributes, const Html& content) {
  const bool is_void = std::ranges::find(kVoid, tag.view()) != kVoid.end();
  std::string text = opening(tag, attributes) + content.markup();
  if (!is_void) text += "</" + std::string(tag.view()) + ">";
  return Markup::of(std::move(text));
}

Html raw_element(Literal tag, Literal text) {
  return Markup::of(opening(tag, {}) + std::string(text.view()) + "</" + std::string(tag.view()) +
                    ">");
}

std::string document(const Html& root) { return "<!doctype html>\n" + root.markup() + "\n"; }

}  // namespace trainctl::report
