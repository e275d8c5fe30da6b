#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::report {

/// A string literal of the source code. Names of elements and attributes, styles and scripts must
/// have this type, so that no text from a file or a user can become markup.
class Literal {
 public:
  template <std::size_t N>
  constexpr Literal(const char (&text)[N]) : text_(text, N - 1) {}  // NOLINT(*-explicit-*)
  template <std::size_t N>
  Literal(char (&)[N]) = delete;  // a buffer could hold any text

  [[nodiscard]] constexpr std::string_view view() const { return text_; }

 private:
  std::string_view text_;
};

/// A piece of a page. Only element() creates markup; text is always escaped.
class Html {
 public:
  Html() = default;
  /// Escapes `text`.
  Html(std::string_view text);                                     // NOLINT(*-explicit-*)
  Html(const std::string& text) : Html(std::string_view(text)) {}  // NOLINT(*-explicit-*)
  Html(const char* text) : Html(std::string_view(text)) {}         // NOLINT(*-explicit-*)

  Html& operator+=(const Html& more);
  [[nodiscard]] const std::string& markup() const { return markup_; }
  [[nodiscard]] bool empty() const { return markup_.empty(); }

 private:
  friend struct Markup;
  std::string markup_;
};

inline Html operator+(Html left, const Html& right) { return left += right; }

struct Attribute {
  Literal name;
  std::string value;
};
using Attributes = std::vector<Attribute>;

/// Returns <tag a="v">content</tag>, or <tag a="v"> for a void element such as `meta`. An `href`
/// must start with "#" and an image must be a data: URL, so that a page loads no resources: throws
/// Error(unexpected) otherwise.
Html element(Literal tag, const Attributes& attributes, const Html& content = {});
template <std::same_as<Html> Content>
Html element(Literal tag, const Content& content) {
  return element(tag, Attributes{}, content);
}
/// Returns the same around literal text without markup: <style> and <script>.
Html raw_element(Literal tag, Literal text);
/// Returns <!doctype html> followed by the root element.
std::string document(const Html& root);

/// Escapes text for content and attributes. Invalid UTF-8, control characters and bidirectional
/// formatting characters become U+FFFD.
std::string escaped(std::string_view text);

/// Encodes bytes as RFC 4648 base64 with padding.
std::string base64(std::string_view bytes);

}  // namespace trainctl::report
