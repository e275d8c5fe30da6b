#pragma once

#include "report/html/html.hpp"
#include "report/text/table.hpp"

// The frame of a page and the pieces that all pages share.

namespace trainctl::report {

enum class Mood { good, bad, waiting };

/// A word of the headline: "ok", "failed (exit 7)", "running".
struct Status {
  std::string text;
  Mood mood = Mood::good;
};

/// One tile below the headline.
struct Fact {
  std::string label;
  std::string value;
  std::string remark = {};  // below it, smaller
};

struct Section {
  std::string id;  // letters and dashes
  std::string title;
  Html content;  // empty: the section is left out
};

struct Page {
  std::string title;
  std::optional<Status> status;
  std::string subtitle;
  std::vector<Fact> facts;         // those without a value are left out
  std::vector<std::string> notes;  // what is missing or damaged
  std::vector<Section> sections;
  std::string footer;
};

/// One self-contained file: its policy forbids every request, its script runs by its hash alone.
std::string render(const Page& page);

/// Numbers to the right, words to the left, as the columns say. The first column is the rows' head.
/// It scrolls within its box.
Html html_table(const Table& table);
Html paragraph(std::string_view text);
/// Figures beside each other where there is room; nothing for none.
Html cards(const std::vector<Html>& figures);
/// Folded until it is opened.
Html folded(const std::string& title, const Html& content);
/// A command to be copied.
Html command(std::string_view text);

}  // namespace trainctl::report
