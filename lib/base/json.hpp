#pragma once

#include <nlohmann/json.hpp>

namespace trainctl {

/// JSON documents keep the order in which keys were added, so that they diff well. See
/// docs/adr/0007-json-in-base.md.
using Json = nlohmann::ordered_json;

/// How Json::parse() reads a std::string, and a std::string_view.
using JsonStringInput = nlohmann::detail::iterator_input_adapter<std::string::const_iterator>;
using JsonViewInput = nlohmann::detail::iterator_input_adapter<std::string_view::const_iterator>;

/// Returns the value of a text from a file or another program. It is discarded, see
/// Json::is_discarded(), if the text is not JSON, has values nested more than 100 deep, or an
/// object of more than 10,000 keys. The limits exist because copies recurse into each level, and
/// because each new key is compared with all earlier keys of its object.
Json parse_json(std::string_view text);

/// Returns the value on one line. Non-finite numbers become null and invalid UTF-8 is replaced, so
/// that the output is always valid JSON.
std::string to_line(const Json& value);

/// Returns the value with an indentation of two spaces.
std::string to_pretty(const Json& value);

}  // namespace trainctl

// json.cpp instantiates these once. Compiled in each source that uses JSON, they would take a tenth
// of the time of a build.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::serializer<trainctl::Json>;
extern template class nlohmann::detail::json_sax_dom_parser<trainctl::Json>;
extern template class nlohmann::detail::json_sax_dom_callback_parser<trainctl::Json>;
extern template class nlohmann::detail::lexer<trainctl::Json, trainctl::JsonStringInput>;
extern template class nlohmann::detail::lexer<trainctl::Json, trainctl::JsonViewInput>;
extern template class nlohmann::detail::parser<trainctl::Json, trainctl::JsonStringInput>;
extern template class nlohmann::detail::parser<trainctl::Json, trainctl::JsonViewInput>;
