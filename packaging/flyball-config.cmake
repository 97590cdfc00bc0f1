# find_package(flyball): flyball::flyball is the C library of flyball/flyball.h, flyball::cpp the C++ library of
# flyball/plan.h and flyball/account.h, where the installation has it.
include("${CMAKE_CURRENT_LIST_DIR}/flyball-targets.cmake")
