#include "config/diagnostics.hpp"
#include "config/secret.hpp"
#include "config/tree/yaml.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

using namespace trainctl::config;

TEST_CASE("without_secrets: values of secret keys are masked in any context") {
  const std::vector<std::string> texts{
      "secret_key: hunter2",
      "  \"secret_key\" : \"hunter2, too\"  # hunter2",
      "remote: {access_key: hunter2, secret_key: 'hunter2', url: s3://b}",
      "override 'dataset.remote.secret_key=hunter2'",
      "override '+dataset.remote={session_token: hunter2}'",
      "password: correct hunter2, staple",
      R"(password: "a\"hunter2")",
      "password: 'a''hunter2'",
      "s: {password: [a, hunter2]}",
      "hf_token: hunter2",
      "wandb_api_key: hunter2",
      "apiKey: hunter2",
      "AWS_SECRET_ACCESS_KEY: hunter2",
      "secretAccessKey: hunter2",
      "passwd: hunter2",
      "auth: hunter2",
      "x: &secret hunter2",
      "access_key: \"${secret:A}hunter2\"",
      "access_key: ${secret:A} hunter2",
      "access_key: ${secret:A}${hunter2",
      "password: ${hunter2}",
      "remote: {password: \"${hunter2}\", url: s3://b}",
      "access_key: \"${secret:A}\"  # hunter2",
      "access_key: \"${secret:A}\" hunter2",
      "remote: {access_key: \"${secret:A}hunter2\", secret_key: hunter2}",
      "remote: {access_key: !!str \"a,hunter2\", secret_key: &a 'b}hunter2'}",
      "access_key: !hunter2",
      "root: https://user:hunter2@host/x",
  };
  for (const std::string& text : texts) {
    CAPTURE(text);
    const std::string covered = without_secrets(text);
    CHECK(covered.size() == text.size());
    CHECK_THAT(covered, !Contains("hunter2"));
  }
  CHECK(without_secrets(texts[2]) ==
        "remote: {access_key: *******, secret_key: '*******', url: s3://b}");
}

TEST_CASE("without_secrets: references, other keys and other values are unchanged") {
  for (const std::string text :
       {"secret_key: ${secret:AWS_SECRET}", "lr: \"${secret:LR}\"",
        "secret_key: \"${secret:AWS_SECRET}\"", "override 'a.secret_key=${secret:AWS_SECRET}'",
        "{access_key: \"${secret:A}\", secret_key: ${secret:B}, url: s3://b}",
        "password: ${env:PASSWORD}", "password: ${remote.password}", "lr: ${rate}",
        "dataset: {type: tokens, path: token.bin}", "author: me", "weights: {key_map: {a: b}}",
        "tokens: 5", "secret_key", "lr: 0.1  # token"})
    CHECK(without_secrets(text) == text);
}

TEST_CASE("line_without_secrets: a value on the lines below its key is masked") {
  const std::vector<std::string> lines{"remote:",   "  secret_key: >", "",       "    hunter2",
                                       "    again", "  url: s3://b",   "lr: 0.1"};
  CHECK(line_without_secrets(lines, 3) == "    *******");
  CHECK(line_without_secrets(lines, 4) == "    *****");
  CHECK(line_without_secrets(lines, 5) == "  url: s3://b");
  CHECK(line_without_secrets(lines, 6) == "lr: 0.1");
}

TEST_CASE("line_without_secrets: a value below its key is masked in every YAML style") {
  const std::vector<std::vector<std::string>> files{
      {"remote: {endpoint: \"http://h\", access_key:", " hunter2}"},
      {"{endpoint: \"http://h\", access_key:", "hunter2, url: s3://b}"},
      {"? access_key", ": hunter2"},
      {"? \"access_key\"", ": - hunter2"},
      {"access_key:", "- hunter2"},
      {"access_key:  # comment", "", "hunter2"},
      {"remote:", "- access_key:", "  - hunter2"},
      {"access_key: \"hun", "hunter2 \\\" ter", "hunter2\""},
      {"remote: {access_key: 'hun", "hunter2'' ter", "hunter2', url: s3://b}"},
      {"access_key: hun", " hunter2"},
      {"access_key: ${secret:A}", " hunter2"},
      {"access_key: !!str", "  hunter2"},
      {"remote: {access_key: [a,", "hunter2]}"},
      {"a: 1", "access_key: &name |", "", " hunter2"},
  };
  for (const std::vector<std::string>& lines : files) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CAPTURE(lines, i);
      CHECK(line_without_secrets(lines, i).size() == lines[i].size());
      CHECK_THAT(line_without_secrets(lines, i), !Contains("hunter2"));
    }
  }
}

TEST_CASE("line_without_secrets: the lines after a secret are shown") {
  const std::vector<std::string> lines{"remote:",        "- access_key: hunter2",
                                       "  url: s3://a",  "x: {access_key: \"hunter2\",",
                                       "  url: s3://b}", "access_key: \"hunter2\"",
                                       "  url: s3://c",  "? access_key",
                                       ": hunter2",      "url: s3://d",
                                       "- tokens: 5"};
  for (const std::size_t shown : {0, 2, 4, 6, 9, 10})
    CHECK(line_without_secrets(lines, shown) == lines[shown]);
}

TEST_CASE("Diagnostics: a line with a literal secret is not shown") {
  const auto source = make_source("a.yaml", "remote: {key: hunter2, nonsense: 1}\n");
  Diagnostics diagnostics;
  diagnostics.error({source, 1, 24, 8}, "unknown key 'nonsense'", "remove it");
  diagnostics.error({source, 1, 15, kHiddenLine}, "'key' must be a reference", "write ${secret:A}");
  CHECK(diagnostics.render() ==
        "a.yaml:1:15: error: 'key' must be a reference\n      | write ${secret:A}\n"
        "a.yaml:1:24: error: unknown key 'nonsense'\n      | remove it\n2 errors in a.yaml\n");
}

TEST_CASE("Diagnostics: a hint in the message is printed without control bytes") {
  Diagnostics diagnostics;
  diagnostics.error({}, "cannot read a\nhint: \x1b[1m");
  CHECK_THAT(diagnostics.render(),
             StartsWith("error: cannot read a\n") && Contains("| \\x1b[1m\n"));
}

TEST_CASE("Diagnostics: secrets in the quoted source line are masked") {
  const auto source =
      make_source("a.yaml", "remote: {secret_key: hunter2, nonsense: 1}\nsecret_key:\n  hunter2\n");
  Diagnostics diagnostics;
  diagnostics.error({source, 1, 31, 8}, "unknown key 'nonsense'");
  diagnostics.error({source, 3, 3, 7}, "'secret_key' must be a reference to a secret");
  CHECK_THAT(diagnostics.render(), Contains("{secret_key: *******, nonsense: 1}") &&
                                       Contains("3 |   *******\n") && !Contains("hunter2"));
}

TEST_CASE("Diagnostics: messages and hints are bounded") {
  Diagnostics diagnostics;
  diagnostics.error({}, "unknown key '" + std::string(1'000'000, 'k') + "'",
                    std::string(1'000'000, 'h'));
  const Diagnostic one = diagnostics.sorted().at(0);
  CHECK(one.message.size() < 1700);
  CHECK(one.hint.size() < 1700);
  CHECK(diagnostics.render().size() < 4000);
}
