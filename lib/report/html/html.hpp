#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::report {

/// Text that stands in the sources. Names of elements and attributes, style and script are of this
/// type alone, so nothing that a file or a person said can become one.
class Literal {
 public:
  template <std::size_t N>
  constexpr Literal(const char (&text)[N]) : text_(text, N - 1) {}  // NOLINT(*-explicit-*)
  template <std::size_t N>
  Literal(char (&)[N]) = delete;  // a buffer, which may hold anything

  [[nodiscard]] constexpr std::string_view view() const { return text_; }

 private:
  std::string_view text_;
};

/// A piece of a page. Markup comes from element() alone; text gets in escaped only.
class Html {
 public:
  Html() = default;
  /// `text` as a reader sees it.
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

/// <tag a="v">content</tag>; <tag a="v"> of one that has no content, as `meta`. A link leads to
/// "#..." only and an image is a data: URL, so a page fetches nothing: else Error(unexpected).
Html element(Literal tag, const Attributes& attributes, const Html& content = {});
template <std::same_as<Html> Content>
Html element(Literal tag, const Content& content) {
  return element(tag, Attributes{}, content);
}
/// The same around text that stands in the sources and is no markup: <style> and <script>.
Html raw_element(Literal tag, Literal text);
/// <!doctype html> and what follows.
std::string document(const Html& root);

/// Escaped for text and attributes. Bytes that are no UTF-8, control characters and those that turn
/// the direction of text become U+FFFD.
std::string escaped(std::string_view text);

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace trainctl::report
