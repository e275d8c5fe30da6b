#include "config/support.hpp"
#include "config/tree/load.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <cstdlib>
#include <fstream>
#include <map>
#include <utility>

// tests/golden/config_errors/*.txt contain cases: `=== title`, then sections `--- FILE` with the
// text of a file (the first one is the config), `--- override` and `--- env` with one entry per
// line, and `--- expect` with the exact output. In inputs, \xNN is a byte.

using namespace trainctl;
namespace fs = std::filesystem;

namespace {

using Section = std::pair<std::string, std::string>;

struct Case {
  std::string title;
  std::vector<Section> sections;
  std::string expected;
};

std::vector<Case> read_cases(const fs::path& path) {
  std::vector<Case> cases;
  for (const std::string& line : golden::lines_of(golden::read(path))) {
    if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), {}, {}});
    } else if (line.starts_with("--- ")) {
      cases.back().sections.emplace_back(line.substr(4), "");
    } else {
      cases.back().sections.back().second += line + '\n';
    }
  }
  for (Case& one : cases) {
    if (!one.sections.empty() && one.sections.back().first == "expect") {
      one.expected = one.sections.back().second;
      one.sections.pop_back();
    }
  }
  return cases;
}

std::string with_bytes(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\\x") == 0) {
      bytes += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
      i += 3;
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

std::string run(const Case& one) {
  const TempFolder folder;
  fs::path config;
  std::vector<std::string> overrides;
  for (const auto& [name, text] : one.sections) {
    if (name == "override") {
      overrides = golden::lines_of(text);
    } else if (name == "env") {
      for (const std::string& line : golden::lines_of(text)) {
        ::setenv(line.substr(0, line.find('=')).c_str(), line.substr(line.find('=') + 1).c_str(),
                 1);
      }
    } else {
      if (config.empty()) config = folder / name;
      std::ofstream(folder / name, std::ios::binary) << with_bytes(text);
    }
  }
  config::Diagnostics diagnostics;
  sample::read(sample::load_tree(config, overrides, diagnostics).tree, diagnostics);
  std::string text = diagnostics.render();
  const std::string prefix = folder.path().string() + "/";
  for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
    text.erase(at, prefix.size());
  return text;
}

void approve(const fs::path& path, const std::vector<Case>& cases) {
  std::ofstream out(path, std::ios::binary);
  for (const Case& one : cases) {
    out << "=== " << one.title << '\n';
    for (const auto& [name, text] : one.sections) out << "--- " << name << '\n' << text;
    out << "--- expect\n" << golden::normalized(run(one), one.expected);
  }
}

std::vector<fs::path> case_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(golden_folder() / "config_errors"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("config errors: the text of every mistake equals its golden text") {
  const char* flag = std::getenv("TRAINCTL_APPROVE");
  const bool approves = flag != nullptr && std::string_view(flag) == "1";
  std::size_t count = 0;
  for (const fs::path& file : case_files()) {
    const std::vector<Case> cases = read_cases(file);
    if (approves) approve(file, cases);
    for (const Case& one : read_cases(file)) {
      INFO(file.filename().string()
           << ": " << one.title << "; TRAINCTL_APPROVE=1 accepts the new text");
      CHECK_FALSE(one.expected.empty());
      CHECK(golden::normalized(run(one), one.expected) == one.expected);
      ++count;
    }
  }
  CHECK(count >= 60);
}
