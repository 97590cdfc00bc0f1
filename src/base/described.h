// For headers that declare described types (base/record.h) but neither read nor write them. It declares what they need
// without including a JSON library, which would take long to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace flyball {

template <class T>
class Record;

// The value that an unknown name is read as. It is specialised for enumerations to which newer programs may add values.
// All other enumerations refuse unknown names. The known names of both stand in base/names.h's lists.
template <class E>
inline constexpr auto kUnknownName = nullptr;

}  // namespace flyball
