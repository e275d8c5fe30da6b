#include "config/tree/yaml.hpp"

#include "config/support.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>
#include <string>

using namespace trainctl;
using config::Diagnostics;
using config::Node;

namespace {

Node parse(std::string_view text, Diagnostics& diagnostics) {
  return config::parse_yaml(config::make_source("test.yaml", text), text, diagnostics);
}

std::string first_message(std::string_view text) {
  Diagnostics diagnostics;
  parse(text, diagnostics);
  return diagnostics.error_count() == 0 ? "" : diagnostics.sorted().front().message;
}

std::string repeat(std::string_view text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace

// yaml-cpp accepts these inputs or describes their errors poorly.
TEST_CASE("YAML: invalid, unsupported and oversized input is an error with a clear message") {
  struct Row {
    const char* title;
    std::string text;
    const char* message;
  };
  const std::string bomb =
      "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c "
      "[*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
      "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: "
      "[*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
  std::string keys;
  for (int i = 0; i < 20'000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  const Row rows[] = {
      {"duplicate key", "a: 1\nb: 2\na: 3", "duplicate key 'a'"},
      {"duplicate key in flow", "{a: 1, a: 3}", "duplicate key 'a'"},
      {"merge key", "a: &x {b: 1}\nc:\n  <<: *x", "the merge key '<<' of YAML is not supported"},
      {"quoted merge key", "{'<<': 1}", "the merge key '<<' of YAML is not supported"},
      {"second document", "a: 1\n---\nb: 1", "a second YAML document begins here"},
      {"second empty document", "a: 1\n---\n", "a second YAML document begins here"},
      {"tag", "a: !!python/name:os.system x",
       "tags such as '!!python/name:os.system' are not supported"},
      {"non-specific tag", "a: ! 12", "tags such as '!' are not supported"},
      {"tag after an anchor", "a: &x !!int 12", "tags such as '!!int' are not supported"},
      {"alias bomb", bomb, "the file has more than 100,000 values after its aliases are resolved"},
      {"bomb of long texts",
       "a: &a " + std::string(200'000, 'x') + "\nb: &b [" + repeat("*a,", 90) + "]\nc: [*b,*b,*b]",
       "the file has more than 100,000 values after its aliases are resolved"},
      {"101 aliases", "a: &a 1\nb: [" + repeat("*a,", 101) + "]",
       "the file has more than 100 aliases"},
      {"cycle", "&a [*a]", "an alias is inside its own anchor"},
      {"cycle through a map", "a: &a {b: {c: *a}}", "an alias is inside its own anchor"},
      {"20,000 keys", keys, "the map has more than 10000 keys"},
      {"nested lists", repeat("[", 200) + repeat("]", 200),
       "values are nested 65 levels deep on line 1, more than the limit of 64"},
      {"nested maps", repeat("{a: ", 200) + "1" + repeat("}", 200),
       "values are nested 65 levels deep on line 1, more than the limit of 64"},
      {"nested block lists", repeat("- ", 500) + "1",
       "values are nested 65 levels deep on line 1, more than the limit of 64"},
      {"nested explicit keys", repeat("? ", 500) + "1",
       "values are nested 65 levels deep on line 1, more than the limit of 64"},
      {"depth through aliases",
       "a: &a " + repeat("[", 40) + repeat("]", 40) + "\nb: " + repeat("[", 40) + "*a" +
           repeat("]", 40),
       "values are nested 81 levels deep on line 2, more than the limit of 64"},
      {"a million brackets", repeat("[", 1'000'000),
       "brackets are nested 4097 levels deep, more than the limit of 64"},
      {"a million braces", repeat("{", 1'000'000),
       "brackets are nested 4097 levels deep, more than the limit of 64"},
      {"unclosed quote", "a: \"b", "a quoted text is not closed"},
      {"unclosed quote with an escape", "a: \"b\\\"", "a quoted text is not closed"},
      {"unclosed single quote", "a: 'b''", "a quoted text is not closed"},
      {"NUL byte", std::string("a: b\0c", 6), "the control character \\x00 is not allowed"},
      {"end-of-text byte",
       "a: b\x04"
       "c: d",
       "the control character \\x04 is not allowed"},
      {"Latin-1", "a: caf\xE9", "byte 0xe9 is not valid UTF-8"},
      {"UTF-16",
       std::string("\xFF\xFE"
                   "a\0",
                   4),
       "byte 0xff is not valid UTF-8"},
      {"tab", "a:\n\tb: 1", "a tab indents this line"},
      {"missing value", "a:\nb: 1", "'a' has no value"},
      {"key that is a map", "? {a: 1}\n: 2", "a key must be a word, got a map"},
      {"very long key", std::string(300, 'k') + ": 1",
       "a key must have at most 256 bytes, got 300"},
      {"empty", "", "the file has only blanks and comments"},
  };
  for (const Row& row : rows) {
    INFO(row.title);
    CHECK(first_message(row.text) == row.message);
  }
}

TEST_CASE("YAML: values keep their text, quotes and positions") {
  Diagnostics diagnostics;
  const Node root = parse(
      "a: 1e-3\nb: \"1\\x41\"\nc: [x, 'y']\nd: ~\ne: |\n  two\n  lines\nf: &x v # note\ng: *x\n",
      diagnostics);
  CHECK(diagnostics.render().empty());
  CHECK(sample::text_at(root, "a") == "1e-3");
  CHECK_FALSE(root.find("a")->quoted);
  CHECK(root.find("a")->position.column == 4);
  CHECK(root.find("a")->position.length == 4);
  CHECK(sample::text_at(root, "b") == "1A");
  CHECK(root.find("b")->quoted);
  CHECK(root.find("b")->position.length == 7);
  CHECK(root.find("c")->items.at(1).quoted);
  CHECK(root.find("d")->is_null());
  CHECK(sample::text_at(root, "e") == "two\nlines\n");
  CHECK(root.find("f")->position.column == 7);
  CHECK(sample::text_at(root, "g") == "v");
  CHECK(root.find("g")->position.line == 9);
  CHECK(root.entry("g")->key_position.column == 1);
}

TEST_CASE("YAML: a byte order mark, CRLF and a document end marker are ignored") {
  const Node root = sample::tree(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: two\r\n...\r\n");
  CHECK(sample::text_at(root, "a") == "1");
  CHECK(sample::text_at(root, "b") == "two");
  CHECK(root.find("b")->position.line == 2);
}

TEST_CASE("YAML: 100 aliases, 64 levels and 10,000 keys are allowed") {
  std::string keys;
  for (int i = 0; i < 10'000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  CHECK(first_message(keys).empty());
  CHECK(first_message(repeat("[", 64) + repeat("]", 64)).empty());
  CHECK(first_message("a: &a 1\nb: [" + repeat("*a,", 100) + "]").empty());
}

TEST_CASE("YAML: a file above 1 MiB and a missing file are an error") {
  const TempFolder folder;
  std::ofstream(folder / "big.yaml") << "a: " << std::string(config::kMaxFileBytes, 'x');
  Diagnostics diagnostics;
  CHECK_THROWS_WITH(sample::load_tree(folder / "big.yaml", {}, diagnostics),
                    Contains("larger than the limit"));
  CHECK_THROWS_WITH(sample::load_tree(folder / "none.yaml", {}, diagnostics),
                    Contains("there is no such file"));
}
