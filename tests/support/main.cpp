#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int skipped = 4;

const Catch::TestCaseInfo& info_of(const auto& test) {
  if constexpr (requires { test.getTestCaseInfo(); }) {
    return test.getTestCaseInfo();  // Catch2 3
  } else {
    return test;
  }
}

/// Returns the names of those of `tests` that are in a source whose path ends with `file`.
std::vector<std::string> names_of(const auto& tests, const std::string& file) {
  std::vector<std::string> names;
  for (const auto& test : tests) {
    const Catch::TestCaseInfo& info = info_of(test);
    if (std::string_view(info.lineInfo.file).ends_with(file)) names.push_back(info.name);
  }
  return names;
}

/// Returns `name` as a test specification, in which some characters have a meaning.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (std::string_view("\\,[]\"").find(c) != std::string_view::npos) text += '\\';
    text += c;
  }
  return text;
}

int run_case(Catch::Session& session, const std::string& name) {
  Catch::ConfigData options = session.configData();
  options.testsOrTags = {escaped(name)};
  session.useConfigData(options);
  const auto& config = session.config();
  const auto selected =
      Catch::filterTests(Catch::getAllTestCasesSorted(config), config.testSpec(), config);
  if (selected.size() != 1) {  // Catch2 2 passes if it selects none
    std::printf("the name of this case selects %zu cases\n", selected.size());
    return 1;
  }
  return session.run() == 0 ? 0 : 1;
}

/// Ends this process. The destructors of libtorch's static variables take 0.1 s, so they run only
/// for the sanitizers, which report at the exit.
[[noreturn]] void leave(int code) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::exit(code);
#else
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
#endif
}

/// Runs each case in a fork of this process, as in a separate process, but without its start:
/// loading libtorch takes 0.3 s. Returns 1 if a case failed, 4 if one was skipped, and 0 if all
/// passed.
int run_apart(Catch::Session& session, const std::vector<std::string>& cases) {
  std::vector<std::string> failed;
  std::size_t left_out = 0;
  for (const std::string& name : cases) {
    std::printf("%s\n", name.c_str());
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      leave(run_case(session, name));
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child) {
      std::perror("this case could not be started in its own process");
      return 1;
    }
    if (WIFSIGNALED(status)) std::printf("killed by signal %d\n", WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) == skipped) {
      ++left_out;
    } else if (status != 0) {
      failed.push_back(name);
    }
  }
  std::printf("%zu cases: %zu failed, %zu skipped\n", cases.size(), failed.size(), left_out);
  for (const std::string& name : failed) std::printf("failed: %s\n", name.c_str());
  if (!failed.empty()) return 1;
  return left_out > 0 ? skipped : 0;
}

}  // namespace

// The case is alone in its process, so a skip may exit.
void skip(const char* reason) {
  std::printf("skipped: %s\n", reason);
  std::fflush(stdout);
  std::_Exit(skipped);
}

// usage: unit [ARGUMENTS OF CATCH2 ...]    run the selected cases in this process
//        unit FILE_test.cpp [TEST SPECS]   run the selected cases of a source, each in a process
//        unit                              run all cases, each in a process
int main(int argc, char** argv) {
  // libtorch's flight recorder does not lock its map of groups, and tests use one group per thread.
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 0);
  Catch::Session session;
  std::string file;
  if (argc > 1) {
    if (!std::string_view(argv[1]).ends_with(".cpp")) return session.run(argc, argv) == 0 ? 0 : 1;
    file = argv[1];
    ++argv;
    --argc;
  }
  if (const int error = session.applyCommandLine(argc, argv)) return error;
  const auto& config = session.config();
  const auto all = Catch::getAllTestCasesSorted(config);
  const auto selected = Catch::filterTests(all, config.testSpec(), config);
  const std::vector<std::string> cases = names_of(selected, file);
  if (!cases.empty()) return run_apart(session, cases);
  if (!names_of(all, file).empty()) skip("no case of this source is selected");
  std::fprintf(stderr, "no source with test cases is named %s\n", file.c_str());
  return 1;
}
