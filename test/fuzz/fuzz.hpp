#pragma once

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "trainyard/core/error.hpp"
#include "trainyard/io/error_text.hpp"

namespace trainyard::fuzz {

/// Checks what every reader guarantees for any input: a value, which is equal when written and read again, or an
/// InputError with 1 to kMostFindings printable findings. `parse` takes a text, `write` a value and a stream.
template <class Parse, class Write>
void check_reader(std::string_view text, const Parse& parse, const Write& write) {
  const auto fail = [](const char* what) {
    std::cerr << what << std::endl;
    std::abort();
  };
  try {
    const auto value = parse(text);
    std::ostringstream written;
    write(value, written);
    try {
      if (!(parse(written.str()) == value)) fail("what is written reads as something else");
    } catch (const InputError& error) {
      std::cerr << error_text(error) << written.str();
      fail("what is written is refused");
    }
  } catch (const InputError& error) {
    if (error.findings().empty() || error.findings().size() > kMostFindings) fail("a wrong number of findings");
    for (const Finding& finding : error.findings())
      if (finding.code.empty() || finding.message.empty() || finding.at.line < 1) fail("a finding says too little");
    if (error_text(error).empty() || error_json(error).empty()) fail("no text");
  }
}

}  // namespace trainyard::fuzz
