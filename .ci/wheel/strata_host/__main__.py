from strata_host import main

main()
