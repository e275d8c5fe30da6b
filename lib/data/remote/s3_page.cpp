#include "data/remote/object_stores.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace trainctl::data {
namespace {

/// What stands between <tag> and </tag>, the first time; nothing where there is none.
std::optional<std::string_view> element(std::string_view xml, const std::string& tag) {
  const std::string open = "<" + tag + ">";
  const std::size_t begin = xml.find(open);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = xml.find("</" + tag + ">", begin);
  if (end == std::string_view::npos) return std::nullopt;
  return xml.substr(begin + open.size(), end - begin - open.size());
}

std::string utf8(std::uint32_t code) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F))};
  if (code < 0x10000)
    return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
  return {byte(0xF0 | (code >> 18 & 7)), byte(0x80 | (code >> 12 & 0x3F)),
          byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
}

/// The character of "&...;"; nothing where it is none.
std::optional<std::string> character(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, const char*>, 5> kNames{
      {{"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}}};
  for (const auto& [known, text] : kNames) {
    if (name == known) return text;
  }
  if (!name.starts_with('#')) return std::nullopt;
  const bool hex = name.starts_with("#x");
  name.remove_prefix(hex ? 2 : 1);
  std::uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), code, hex ? 16 : 10);
  if (error != std::errc() || end != name.data() + name.size() || code > 0x10FFFF)
    return std::nullopt;
  return utf8(code);
}

std::optional<std::string> text_of(std::optional<std::string_view> escaped) {
  if (!escaped) return std::nullopt;
  std::string text;
  while (!escaped->empty()) {
    const std::size_t mark = escaped->find('&');
    text += escaped->substr(0, mark);
    if (mark == std::string_view::npos) break;
    const std::size_t end = escaped->find(';', mark);
    if (end == std::string_view::npos) return std::nullopt;
    const auto one = character(escaped->substr(mark + 1, end - mark - 1));
    if (!one) return std::nullopt;
    text += *one;
    escaped->remove_prefix(end + 1);
  }
  return text;
}

std::optional<ObjectInfo> object_of(std::string_view xml) {
  const auto key = text_of(element(xml, "Key"));
  const auto size = element(xml, "Size");
  if (!key || !size) return std::nullopt;
  ObjectInfo object{*key, 0, plain_etag(text_of(element(xml, "ETag")).value_or(""))};
  const auto [end, error] = std::from_chars(size->data(), size->data() + size->size(), object.size);
  if (error != std::errc() || end != size->data() + size->size()) return std::nullopt;
  return object;
}

}  // namespace

std::string plain_etag(std::string text) {
  if (text.starts_with("W/")) text.erase(0, 2);
  std::erase(text, '"');
  return text;
}

std::optional<S3Page> parse_s3_page(std::string_view xml) {
  if (xml.find("<ListBucketResult") == std::string_view::npos ||
      xml.find("</ListBucketResult>") == std::string_view::npos) {
    return std::nullopt;
  }
  S3Page page;
  if (element(xml, "IsTruncated") == "true") {
    const auto token = text_of(element(xml, "NextContinuationToken"));
    if (!token || token->empty()) return std::nullopt;
    page.next = *token;
  }
  for (auto rest = xml; const auto contents = element(rest, "Contents");) {
    auto object = object_of(*contents);
    if (!object) return std::nullopt;
    page.objects.push_back(*std::move(object));
    rest.remove_prefix(static_cast<std::size_t>(contents->data() + contents->size() - rest.data()));
  }
  return page;
}

}  // namespace trainctl::data
